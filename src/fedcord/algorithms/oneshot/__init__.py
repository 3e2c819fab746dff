"""One-shot federated learning: clients train alone and send once.

The family is one composed algorithm, `oneshot.OneShot`: local objective × anchors × λ policy ×
gradient conflict × server. `ladder.PRESETS` names the published combinations and those on the way
to FLARE.
"""
