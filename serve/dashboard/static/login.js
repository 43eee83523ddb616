// Sends the key of the link at once; without scripts the button does.
"use strict";
document.getElementById("login").requestSubmit();
