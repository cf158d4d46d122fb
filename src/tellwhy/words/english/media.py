"""Pictures, stretches, texts and nodes, in English: where they are odd, what was found, what was done."""

from __future__ import annotations

from tellwhy.results.notice import Notice
from tellwhy.results.result import Reason
from tellwhy.words.english.notices import notes
from tellwhy.words.english.reasons import explains
from tellwhy.words.numbers import write_count
from tellwhy.words.wording import between, count, count_wrong_labels, number


@explains("region")
def _explain_region(r: Reason) -> str:
    left, right = r.facts["x"]
    top, bottom = r.facts["y"]
    place = f"x {left}–{right}, y {top}–{bottom}"
    if r.facts["times_usual"] is None:
        return place
    return f"{place} ({r.facts['times_usual']:.1f} times the usual relevance)"


@explains("channel")
def _explain_channel(r: Reason) -> str:
    return r.feature


@explains("coefficient")
def _explain_coefficient(r: Reason) -> str:
    low, high = r.typical
    return f"{r.feature}: {number(r.facts['coefficient'], 2)} per unit ({between(low, high)})"


@explains("word")
def _explain_word(r: Reason) -> str:
    name = f"“{r.feature}”"
    return name if r.facts["is_present"] else f"lacks {name}"


# What was found: the place of the oddest one comes as a reason, as plain values


def _place(n: Notice) -> str:
    """The first reason of the oddest one without its share; nothing where no place stands out."""
    told = n.facts.get("place")
    if told is None:
        return ""
    reason = Reason(told["feature"], None, (), told["share"], kind=told["kind"], facts=told["facts"])
    explained: str = _PLACES[reason.kind](reason)
    return explained


_PLACES = {"region": _explain_region, "channel": _explain_channel, "word": _explain_word}


@notes("odd_pictures")
def _note_odd_pictures(n: Notice) -> str:
    of = n.facts["n"]
    alarms = n.facts["n_alarms"]
    first = n.facts["first"]
    place = _place(n)
    where = f"at {place}" if place else "in no place in particular"
    if not n.facts["is_judged"]:
        return f"{'The picture' if of == 1 else f'Of {of:,} pictures, {first}'} is oddest {where}."
    if alarms == 0:
        return "The picture is ordinary." if of == 1 else f"None of the {of:,} pictures is odd."
    if of == 1:
        return f"The picture is odd, {'most of all ' if place else ''}{where}."
    verb = "is" if alarms == 1 else "are"
    return f"{alarms:,} of {of:,} pictures {verb} odd; {first} most of all, {where}."


@notes("odd_stretches")
def _note_odd_stretches(n: Notice) -> str:
    alarms = n.facts["n_alarms"]
    place = _place(n)
    first = f"{n.facts['first']}, most of all in {place}" if place else n.facts["first"]
    if not n.facts["is_judged"]:
        few = "there are too few stretches to tell whether it is odd beyond chance"
        return f"The oddest stretch is {first}; {few}."
    if alarms == 0:
        return f"No stretch is odd beyond chance; the oddest is {first}."
    verb = "stretch is" if alarms == 1 else "stretches are"
    return f"{alarms:,} {verb} odd; the oddest is {first}."


@notes("odd_texts")
def _note_odd_texts(n: Notice) -> str:
    of = n.facts["n"]
    alarms = n.facts["n_alarms"]
    first = n.facts["first"]
    place = _place(n)
    why = f": {place}" if place else ""
    if alarms == 0:
        return f"None of the {of:,} texts is odd beyond chance; the oddest is {first}{why}."
    chance = round(n.facts.get("expected_false", 0.0))
    ordinary = f" About {chance:,} ordinary ones among so many would be, too." if chance > 0 else ""
    verb = "is" if alarms == 1 else "are"
    return f"{alarms:,} of {of:,} texts {verb} odd; {first} most of all{why}.{ordinary}"


# What was done


@notes("labelled_texts")
def _note_labelled_texts(n: Notice) -> str:
    of = n.facts["n"]
    n_wrong = n.facts["n_wrong"]
    texts = count(of, "text")
    if n_wrong is None:
        return f"{texts} labelled."
    if n_wrong == 0:
        one = "The text got the label it came with."
        return one if of == 1 else f"All {texts} got the label they came with."
    return count_wrong_labels(n_wrong, of, texts)


@notes("patterns_learned")
def _note_patterns_learned(n: Notice) -> str:
    f = n.facts
    where = f" in {count(f['n_targets'], 'class', 'classes')}" if f["n_targets"] > 1 else ""
    doubt = f" {count(f['n_unsure'], 'pattern')} cannot be trusted yet." if f["n_unsure"] else ""
    return f"{count(f['n'], 'pattern')}{where} stand in for what the model has learned.{doubt}"


@notes("label_of_text")
def _note_label_of_text(n: Notice) -> str:
    f = n.facts
    came = f", and came with {f['came_with']}" if f["came_with"] not in (None, f["label"]) else ""
    return f"labelled {f['label']}, ahead of {f['rival']}{came}"


@notes("pictures_compared")
def _note_pictures_compared(n: Notice) -> str:
    f = n.facts
    if f.get("looks"):
        return _count_pictures(n)
    one = f["n"] == 1
    shown = "One picture was" if one else f"{f['n']:,} pictures were"
    good = f"{f['n_reference']:,} good picture{'s' if f['n_reference'] != 1 else ''}"
    against = good if f["n_reference"] else "itself" if one else "each other"
    aligned = ""
    if f["aligned_share"] is not None:
        aligned = (
            " They show the same thing in the same place (where a pixel is explains "
            f"{f['aligned_share']:.0%} of the differences between pixels), so that patches are of how far "
            "each pixel is from what the others show there, in units of how far those are from each other."
        )
    return (
        f"{shown} compared with {against}, by a one-class SVM of patches of {f['patch']} × "
        f"{f['patch']} pixels (longest side: {f['side']} pixels).{aligned} A picture’s score is the mean of "
        f"its oddest {f['share_of_places']:.0%} of patches. Alarms: {f['rule']}. Relevance of pixels: "
        "One-Class DTD of every patch, added up."
    )


_LOOKS = {
    "network": "features of a small network, a Gaussian for each place",
    "filters": "fine filters, the nearest place of any good picture",
    "whole": "features of a small network of whole pictures, since each shows another thing",
}
_FOUND_BY = {
    "network": "features of the network",
    "filters": "fine filters",
    "whole": "features of the whole",
}


def _count_pictures(n: Notice) -> str:
    f = n.facts
    shown = "One picture was" if f["n"] == 1 else f"{f['n']:,} pictures were"
    against = f"{f['n_reference']:,} good pictures" if f["n_reference"] else "each other"
    by = " and by ".join(_LOOKS[name] for name in f["looks"])
    tried = ""
    if f["tried"]:
        told = [f"{name.replace('+', ' and ')} {value:.2f}" for name, value in f["tried"].items()]
        tried = f" Chosen on defects planted in these pictures (AUROC: {', '.join(told)})."
    return (
        f"{shown} compared with {against} by {by}.{tried} A picture’s score is the distance of its oddest "
        "place, in units of the good pictures’ scores, each of which was judged without itself. Alarms: "
        f"{f['rule']}. Relevance of pixels: the distance of that place, carried back through the network "
        "as differences from good pictures."
    )


@notes("carried_back")
def _note_carried_back(n: Notice) -> str:
    by = _FOUND_BY[n.facts["by"]]
    carried = f"its pixels’ relevance adds up to {n.facts['share']:.1%} of the oddest place’s distance"
    return f"Found by {by}; {carried}."


@notes("could_see_more")
def _note_could_see_more(n: Notice) -> str:  # noqa: ARG001
    return (
        "Pictures were compared by raw patches. Features of a small network find more: "
        "`pip install 'tellwhy[images]'`."
    )


@notes("stretches_compared")
def _note_stretches_compared(n: Notice) -> str:
    f = n.facts
    channels = f"{f['n_channels']} channel{'s' if f['n_channels'] != 1 else ''}"
    return (
        f"{f['n_moments']:,} moments of {channels} were compared with {f['against']}, in windows of "
        f"{f['window']} readings, by a one-class SVM. {f['n_stretches']:,} stretches that do not overlap "
        f"were judged. Alarms: {f['rule']}. Relevance: One-Class DTD of every window, added up, beyond "
        "what is usual of the channel."
    )


_BY_MEANING = "each part's own sum over words; of meanings, by how much a text is nearer without a word"


@notes("texts_compared")
def _note_texts_compared(n: Notice) -> str:
    f = n.facts
    hows = {"paper": "One-Class DTD", "meaning": _BY_MEANING}
    how = hows.get(f["likeness"], "each part's own sum over words")
    return (
        f"{f['n']:,} texts were compared with {f['against']} by {f['by']}. Alarms: {f['rule']}. Relevance "
        f"of words: {how}, for absent words too."
    )


@notes("follows_length")
def _note_follows_length(n: Notice) -> str:
    correlation = f"rank correlation {n.facts['correlation']:.2f}"
    return f"Scores follow the number of words ({correlation}): compare texts of similar length."


@notes("empty_texts")
def _note_empty_texts(n: Notice) -> str:
    return f"{n.facts['n']:,} texts are empty."


@notes("empty_text")
def _note_empty_text(_n: Notice) -> str:
    return "The text is empty."


@notes("all_words_new")
def _note_all_words_new(_n: Notice) -> str:
    return "None of its words is known: all are new."


# Nodes


_NODES = {"grid": "nodes of the grid", "time": "rows in the order of time", "edges": "nodes of the graph"}


@notes("nodes_in_classes")
def _note_nodes_in_classes(n: Notice) -> str:
    sizes = n.facts["sizes"]
    total = sum(sizes)
    parts = ", ".join(f"class {k}: {size / total:.0%}" for k, size in enumerate(sizes))
    classes = "class" if len(sizes) == 1 else "classes"
    verb = "node is" if n.facts["n_alarms"] == 1 else "nodes are"
    return (
        f"{total:,} {_NODES[n.facts['what']]} of {n.facts['source']} fall into {len(sizes)} latent {classes} "
        f"that neighbours tend to share ({parts}). {n.facts['n_alarms']:,} {verb} above the threshold "
        f"({n.facts['rule']}) for the class they are in. The {n.facts['n_explained']} highest scores were "
        f"explained by LatentClassDTD; {n.facts['context_share']:.0%} of them is there only because of the "
        "context: elsewhere, the same values would be ordinary."
    )


@notes("beside_neighbours")
def _note_beside_neighbours(n: Notice) -> str:
    names = ", ".join(n.facts["columns"])
    return f"Neighbours tell more of {names} than classes do: nodes are compared with the middle of theirs."


@notes("no_shared_classes")
def _note_no_shared_classes(n: Notice) -> str:  # noqa: ARG001
    return "No classes that neighbours share were found: every node is judged by its values alone."


# Pictures as they were read


@notes("picture_left_out")
def _note_picture_left_out(n: Notice) -> str:
    return f"Not {n.facts['used']}: {n.facts['why']}"


@notes("picture_changed")
def _note_picture_changed(n: Notice) -> str:
    who = n.facts["name"] if n.facts["n"] == 1 else f"{n.facts['n']:,} pictures"
    return f"{who}: {n.facts['what']}."


@notes("alike_for_more")
def _note_alike_for_more(n: Notice) -> str:
    return f"The same or alike for {write_count(n.facts['n'], 'more picture')}."
