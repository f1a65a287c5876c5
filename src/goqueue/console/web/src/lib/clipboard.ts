// The clipboard, also where browsers give pages none.

/** Browsers have a clipboard for pages on HTTPS and on this machine alone; elsewhere a selection is copied. */
export async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = document.createElement("textarea");
    box.value = text;
    box.className = "unseen";
    const before = document.activeElement;
    // Inside of a modal dialog nothing outside of it can be selected.
    (before?.closest("dialog") ?? document.body).append(box);
    box.select();
    const isDone = document.execCommand("copy");
    box.remove();
    if (before instanceof HTMLElement) before.focus();
    return isDone;
  }
}
