"""How things stand: gates and how long they have held, what is missing, who has signed. For `status` and `report`."""
