"""Checkpoints of PyTorch Lightning, written by its Trainer, and a `.nemo` file, a tar file with one of them.

Writes pth/lightning.ckpt, nemo/packed.nemo and their expected tensors, which are those that torch.load reads.
NeMo saves the weights with torch.save and packs them with Python's tarfile, in this order and under these names.
"""

import io
import tarfile

import pytorch_lightning as lightning
import torch

from common import FIXTURES, seed, write_tensors
from gen_pth import expect, flat, load

PTH, NEMO = FIXTURES / "pth", FIXTURES / "nemo"


class Model(lightning.LightningModule):
    def __init__(self, width=4, rate=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(torch.nn.Linear(width, 3), torch.nn.BatchNorm1d(3))
        self.register_buffer("offset", torch.arange(3, dtype=torch.int64))

    def training_step(self, batch, _):
        loss = self.layers(batch).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.rate)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


def checkpoint():
    """Trains for two epochs; the checkpoint has the states of the optimizer, the scheduler, the loops and a callback."""
    with torch.enable_grad():
        best = lightning.callbacks.ModelCheckpoint(monitor="loss", dirpath="/tmp/lightning", save_top_k=0)
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, callbacks=[best],
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=4))
        trainer.save_checkpoint(PTH / "lightning.ckpt")
    expect("lightning", flat(load("lightning.ckpt")["state_dict"]))


def packed():
    """The layout of NeMo's SaveRestoreConnector: a directory, its configuration, its weights."""
    NEMO.mkdir(parents=True, exist_ok=True)
    tensors = load("lightning.ckpt")["state_dict"]
    config, weights = b"target: example.Model\nwidth: 4\n", io.BytesIO()
    torch.save(tensors, weights)
    with tarfile.open(NEMO / "packed.nemo", "w:") as tar:
        folder = tarfile.TarInfo(".")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        for name, content in (("./model_config.yaml", config), ("./model_weights.ckpt", weights.getvalue())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    write_tensors("nemo", "packed.expected", flat(tensors))


if __name__ == "__main__":
    seed("lightning")
    checkpoint()
    packed()
