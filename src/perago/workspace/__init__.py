"""Local workspaces: download the objects under a prefix into a private directory, and upload what the body changed there."""
