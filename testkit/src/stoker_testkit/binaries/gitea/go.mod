// Pins the Gitea that stands for a forge. It is built in its own folder, whose go.sum pins the rest.
module stoker.io/testing/gitea

go 1.26.0

require code.gitea.io/gitea v1.26.0
