// Browsers start no worker for a page that is read from a disk. The search then runs in a hidden frame instead.
// What is said is copied and arrives later, as with a worker: the page and the search each change what they were given.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (said) => {
        const data = structuredClone(said);
        setTimeout(() => this.onmessage?.({ data }));
      };
      this.loaded = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = resolve;
        script.onerror = (event) => this.onerror?.(event);
        inside.document.body.append(script);
      });
    }

    postMessage(said) {
      const data = structuredClone(said);
      this.loaded.then(() => this.frame.contentWindow?.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
