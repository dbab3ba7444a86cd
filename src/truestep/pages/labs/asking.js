// Grades answers by the values that the engine computed, which the page carries; and tells why only after an answer.
(() => {
  "use strict";
  const { lab, asks } = Labs.json("asks-json");
  const { html, words } = Labs;

  // 0.25, 1/4, 2^-2, 2.5e-1, 1,000, 3 x 10^-5; null for what is none of these.
  const number = (text) => {
    let plain = text.trim().toLowerCase().replaceAll("**", "^").replaceAll("−", "-").replace(/[×·*]/g, "x").replaceAll("∞", "inf");
    plain = plain.replace(/^[≈~=]\s*/, "").replace(/(\d),(?=\d{3}(\D|$))/g, "$1").replace(/\s+/g, "");
    if (/^[+-]?inf(inity)?$/.test(plain)) return plain.startsWith("-") ? -Infinity : Infinity;
    if (plain === "nan") return NaN;
    const parts = plain.split(/([x/])/);
    const one = (part) => {
      const found = /^([+-]?)(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(?:\^\(?([+-]?\d+)\)?)?$/.exec(part);
      if (found === null) return null;
      const [, sign, decimal, exponent, raised] = found;
      return (sign === "-" ? -1 : 1) * Number(decimal + (exponent ?? "")) ** Number(raised ?? 1);
    };
    return parts.slice(1).reduce((value, part, k) => {
      if (k % 2 === 0 || value === null) return value;
      const next = one(part);
      return next === null ? null : parts[k] === "/" ? value / next : value * next;
    }, one(parts[0]));
  };
  const real = (value) => (value === "inf" ? Infinity : value === "-inf" ? -Infinity : value === "nan" ? NaN : value);
  const near = (given, right, within) => {
    if (Object.is(given, right)) return true;
    return given === right || Math.abs(given - right) <= within * Math.abs(right) && Math.abs(right) < Infinity;
  };
  const fits = (given, right, within) => {
    if (Array.isArray(right)) {
      const parts = given.replace(/^[\s[(]+|[\s\])]+$/g, "").split(/\s*;\s*|,\s*|\s+/);
      return parts.length === right.length && right.every((each, k) => fits(parts[k], each, within));
    }
    const value = real(right);
    if (typeof value === "number") return number(given) !== null && near(number(given), value, within);
    if (typeof value === "boolean") return given.trim().toLowerCase() === (value ? "yes" : "no");
    return given.trim().toLowerCase() === String(value ?? "-").toLowerCase();
  };

  // Each grader gives null with words for what is missing, or the share that is right with what is told.
  const missing = (text) => ({ missing: text });
  const graders = {
    number: (form, ask) => {
      const given = number(form.elements.number.value);
      if (given === null) return missing("Write a number: 0.25, 1/4, 2^-2, 2.5e-1 or 1,000.");
      const right = near(given, real(ask.answer), ask.within);
      const unit = ask.unit ? ` ${ask.unit}` : "";
      const yours = (each) => !right && near(given, real(each.value), Math.max(ask.within, 0.001));
      const tempting = [...ask.tempting].sort((one, other) => yours(other) - yours(one));
      const told = tempting.map((each) => [`${yours(each) ? "Your" : "Tempting:"} ${words(real(each.value), 7)}${unit}`, each.why, false]);
      return { right: Number(right), told: [[`It is ${words(real(ask.answer), 7)}${unit}`, ask.why, true], ...told] };
    },
    choice: (form, ask) => {
      const given = form.elements.option.value;
      if (given === "") return missing("Choose one.");
      const order = [...ask.options].sort((one, other) => other.right - one.right || (other === ask.options[given]) - (one === ask.options[given]));
      return { right: Number(ask.options[given].right), told: order.map((each) => [each.text, each.why, each.right]) };
    },
    column: (form, ask) => {
      const cells = [...form.querySelectorAll("[name=cell]")];
      if (cells.some((cell) => cell.value.trim() === "")) return missing("Fill in every cell.");
      const right = ask.rows.map((row, k) => fits(cells[k].value, row[ask.blank], ask.within));
      cells.forEach((cell, k) => {
        cell.after(html("span", `mark ${right[k] ? "right" : "wrong"}`, right[k] ? " ✓" : ` ✗ ${words(ask.rows[k][ask.blank], 7)}`));
      });
      return { right: right.filter(Boolean).length / right.length, told: [["Why", ask.why, true]] };
    },
    buckets: (form, ask) => {
      const chosen = [...form.querySelectorAll("[name=item]")];
      if (chosen.some((each) => each.value === "")) return missing("Choose a bucket for each.");
      const right = ask.items.map((item, k) => chosen[k].value === item.bucket);
      const told = ask.items.map((item, k) => [`${item.text}: ${item.bucket}`, item.why, right[k]]);
      return { right: right.filter(Boolean).length / right.length, told };
    },
    find: (form, ask) => {
      const given = number(form.elements.number.value);
      if (given === null) return missing("Write the number of a line.");
      const right = ask.faults.some((fault) => fault.line === given);
      form.querySelectorAll(".code li").forEach((line, k) => line.classList.toggle("fault", ask.faults.some((fault) => fault.line === k + 1)));
      const told = ask.faults.map((fault) => [`The audit reports line ${fault.line}`, fault.words, true]);
      return { right: Number(right), told: [...told, ["Why", ask.why, true]] };
    },
  };

  const verdict = (share, points) => points ?? (share === 1 ? "✓ Right" : share === 0 ? "✗ Not what was measured" : `${Math.round(100 * share)} % right`);
  const lock = (form) => form.querySelectorAll("input, select, button, textarea").forEach((part) => { part.disabled = true; });
  const finish = (form, ask, share, told, points) => {
    const sure = form.elements.sure.value;
    Labs.keep(`${lab}/${ask.key}`, { sure: sure === "" ? null : Number(sure), right: share });
    lock(form);
    const reply = form.querySelector(".reply");
    const found = html("p", `verdict ${share === 1 ? "right" : "wrong"}`, verdict(share, points));
    found.tabIndex = -1;
    reply.append(found);
    reply.append(...told.map(([what, why, right]) => {
      const part = html("p", right ? "told right" : "told");
      part.append(html("b", "", what), ` ${why}`);
      return part;
    }));
    found.focus({ preventScroll: true }); // what had the focus is locked now
    // A lab whose exercises are all answered opens what it shows.
    if (!document.querySelector(".ask .reply:empty")) document.getElementById("told").open = true;
  };

  // Rule out what is wrong, one by one; ruling out the right one ends it.
  const eliminate = (form, ask) => {
    let out = 0;
    const wrong = ask.options.length - 1;
    form.querySelectorAll("[data-option]").forEach((button) => button.addEventListener("click", () => {
      const option = ask.options[Number(button.dataset.option)];
      if (option.right) {
        const rest = ask.options.filter((each) => each !== option).map((each) => [each.text, each.why, false]);
        finish(form, ask, out / wrong, [[`You ruled out: ${option.text}`, option.why, true], ...rest]);
        return;
      }
      out += 1;
      const next = [...form.querySelectorAll("[data-option]:not(:disabled)")].find((each) => each !== button);
      button.disabled = true;
      button.parentElement.classList.add("out");
      button.parentElement.append(html("p", "note", option.why));
      if (out < wrong) next.focus();
      else {
        const right = ask.options.find((each) => each.right);
        finish(form, ask, 1, [[right.text, right.why, true]]);
      }
    }));
  };

  // The learner's own words are graded by the learner, a point for each line of the rubric.
  const open = (form, ask) => {
    const reply = form.querySelector(".reply");
    const list = html("ul", "rubric");
    ask.rubric.forEach((line) => {
      const item = document.createElement("li"), label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      label.append(box, " ", line);
      item.append(label);
      list.append(item);
    });
    const told = [["A strong answer:", ask.strong], ["A weak answer:", ask.weak]].concat(ask.follow_up ? [["And then:", ask.follow_up]] : []);
    const done = html("button", "", "Keep my points");
    done.type = "button";
    done.addEventListener("click", () => {
      const points = list.querySelectorAll(":checked").length;
      finish(form, ask, points / ask.rubric.length, [], `${points} of ${ask.rubric.length} points`);
    });
    reply.append(html("p", "", "A point for each line that your answer has:"), list, ...told.map(([what, text]) => {
      const part = html("p", "told");
      part.append(html("b", "", what), ` ${text}`);
      return part;
    }), done);
    form.querySelector("[type=submit]").disabled = true;
    list.querySelector("input").focus();
  };

  document.querySelectorAll(".ask").forEach((form, k) => {
    const ask = asks[k];
    const before = Labs.kept()[`${lab}/${ask.key}`];
    if (before) {
      const sure = before.sure === null ? "" : `, confidence ${before.sure}`;
      form.querySelector(".earlier").textContent = `You have answered this before: ${Math.round(100 * before.right)} % right${sure}.`;
    }
    if (ask.eliminate) eliminate(form, ask);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (ask.kind === "open") { open(form, ask); return; }
      if (!(ask.kind in graders) || ask.eliminate) return;
      const graded = graders[ask.kind](form, ask);
      form.querySelector(".missing").textContent = graded.missing ?? "";
      if (graded.missing === undefined) finish(form, ask, graded.right, graded.told);
    });
  });
  // What was measured stays folded until it is asked for, so that nobody reads the answers by mistake.
  if (asks.length && location.hash !== "#shows") document.getElementById("told").open = false;
})();
