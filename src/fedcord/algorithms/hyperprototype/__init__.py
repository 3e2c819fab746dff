"""FedHPro in parts: what clients extract and minimise, what the server matches and re-trains."""
