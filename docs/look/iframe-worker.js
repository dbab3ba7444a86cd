// A Worker for pages that were opened as files: browsers give such pages none, and search runs in one. The script runs in a
// hidden frame instead, which sees the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      const add = (source) =>
        new Promise((resolve, reject) => {
          const script = this.inside.document.createElement("script")
          Object.assign(script, { src: source, onload: resolve, onerror: reject })
          this.inside.document.head.append(script)
        })
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => add(source)), Promise.resolve())
      this.ready = add(new URL(url, location))
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
