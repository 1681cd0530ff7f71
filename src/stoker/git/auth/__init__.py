"""What opens a repository: keys, tokens, apps, known servers, proxies; and how one git process gets them."""
