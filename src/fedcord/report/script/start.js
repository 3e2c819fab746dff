// Links into folded parts, and the beginning of it all.

function unfold(element) {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
}

function reveal() {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  unfold(target);
  target.scrollIntoView({ block: "center" });
}

document.documentElement.classList.add("live");
addBar();
addChoices();
enhance(document);
addBudget();
addEventListener("hashchange", reveal);
reveal();
