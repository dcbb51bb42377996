"""HTTP/1.1 for the data path: the inference plane's server side and the pooled upstream client."""
