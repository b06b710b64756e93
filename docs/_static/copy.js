// Adds a button to each code block that copies it: of a terminal session the commands, without prompts and output.
function commandsOf(text) {
  const typed = text.split("\n").filter((line) => line.startsWith("$ "));
  return typed.length ? typed.map((line) => line.slice(2)).join("\n") + "\n" : text;
}

document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return;  // pages that are read from a file or over plain HTTP
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(commandsOf(block.querySelector("pre").textContent));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
});
