// End-to-end tests of layers of Python networks that drop values at random.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_model.h"

namespace {

using testing::HasSubstr;
using testing::Not;

class DroppingHostedModel : public HostedModel {
 protected:
  /// Runs a program that can import retort_host and check.
  Ended python_with_host(const std::string& program) const {
    return python("import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR
                  "/stages/python')\n"
                  "import torch\n" +
                  program);
  }
  void expect_same_in_micro_batches(const std::string& certified_layer) const {
    const Ended certified =
        here("certify own.yaml memory.micro_batch=3 --json python=" + python_->string());
    EXPECT_EQ(certified.exit, 0) << certified_layer << certified.err << certified.out;
    EXPECT_THAT(certified.out, HasSubstr("with dropout")) << certified_layer;
    EXPECT_THAT(certified.err, Not(HasSubstr("draws random numbers on its own")))
        << certified_layer;
  }
};

/// Every command imports torch, which takes seconds.
class DeepDroppingHostedModel : public DroppingHostedModel {};

TEST_F(DroppingHostedModel, ChannelDropoutIsTheSameInMicroBatches) {
  trust("my_net.py", net());
  expect_same_in_micro_batches("Dropout2d");
}

TEST_F(DroppingHostedModel, WholeBatchIsDroppedOrKeptInMicroBatches) {
  if (!torch_python_has("torchvision")) GTEST_SKIP() << "that Python has no package 'torchvision'";
  trust("my_net.py", net("        x = x + self.depth(x)\n",
                         "        self.depth = torchvision.ops.StochasticDepth(0.5, 'batch')\n",
                         "import torchvision\n"));
  expect_same_in_micro_batches("StochasticDepth");
}

TEST_F(DeepDroppingHostedModel, LibraryLayersDropTheSameValuesInMicroBatches) {
  const std::string patches =
      "        x = self.drop(x.flatten(2).transpose(1, 2)).mean(1)[:, :, None, None].expand(-1, 3, "
      "16, "
      "16)\n";
  const struct {
    const char *package, *layer;
    std::string forward;
  } cases[] = {
      {"torch", "nn.AlphaDropout(0.3)", ""},
      {"torch", "nn.FeatureAlphaDropout(0.3)", ""},
      {"torch", "type('Mine', (nn.Dropout,), {})(0.3)", ""},
      {"timm", "timm.layers.DropPath(0.3)", ""},
      {"timm", "timm.layers.DropPath(0.3, scale_by_keep=False)", ""},
      {"timm", "timm.layers.DropBlock2d(0.3, 4)", ""},
      {"timm", "timm.layers.PatchDropout(0.3, 1)", patches},
      {"timm", "timm.layers.patch_dropout.PatchDropoutWithIndices(0.3, 1)",
       "        x, chosen = self.drop(x.flatten(2).transpose(1, 2))\n"
       "        x = x if chosen is None else x * (chosen.sum(1) * 1e-3)[:, None, None]\n"
       "        x = x.mean(1)[:, :, None, None].expand(-1, 3, 16, 16)\n"},
      {"torch", "nn.Identity()",
       "        x = F.dropout(x, 0.3, self.training)\n        x = F.dropout(x, 0.1) if "
       "self.training else x\n"},
      {"torch", "nn.MultiheadAttention(3, 3, dropout=0.3, batch_first=True)",
       "        rows = x.flatten(2).transpose(1, 2)\n"
       "        rows = self.drop(rows, rows, rows, need_weights=False)[0]\n"
       "        x = x + self.drop(rows, rows, rows)[0].transpose(1, 2).view_as(x)\n"},
      {"torchvision", "torchvision.ops.StochasticDepth(0.3, 'row')", ""},
      {"torchvision", "torchvision.ops.DropBlock2d(0.3, 3)", ""},
      {"torchvision", "torchvision.ops.DropBlock3d(0.3, 3)",
       "        x = self.drop(x[:, None].expand(-1, 2, -1, -1, -1)).mean(1)\n"},
      {"transformers", "transformers.models.swin.modeling_swin.SwinDropPath(0.3)", ""},
      {"open_clip", "open_clip.transformer.PatchDropout(0.3)", patches},
  };
  for (const auto& [package, layer, forward] : cases) {
    if (!torch_python_has(package)) continue;
    const std::string name = package;
    const std::string imports = name == "transformers"
                                    ? "import transformers.models.swin.modeling_swin\n"
                                : name == "open_clip" ? "import open_clip.transformer\n"
                                                      : "import " + name + "\n";
    trust("my_net.py", net(forward.empty() ? "        x = self.drop(x)\n" : forward,
                           "        self.drop = " + std::string(layer) + "\n", imports));
    expect_same_in_micro_batches(layer);
  }
}

TEST_F(DeepDroppingHostedModel, LibraryNetworksAreCertifiedWithDropout) {
  const struct {
    const char *package, *makes;
  } cases[] = {
      {"timm",
       "timm.create_model('vit_tiny_patch16_224', img_size=32, patch_size=8, depth=3, "
       "num_classes=num_classes, patch_drop_rate=0.25, pos_drop_rate=0.1, proj_drop_rate=0.1, "
       "attn_drop_rate=0.1, drop_path_rate=0.2)"},
      {"timm",
       "timm.create_model('resnet18', num_classes=num_classes, drop_rate=0.2, "
       "norm_layer=timm.layers.GroupNorm1)"},
      {"timm",
       "timm.create_model('convnext_atto', num_classes=num_classes, drop_rate=0.1, "
       "drop_path_rate=0.2)"},
      {"torchvision", "torchvision.models.swin_t(num_classes=num_classes)"},
      {"transformers",
       "transformers.AutoModelForImageClassification.from_config(transformers.ConvNextConfig("
       "hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], drop_path_rate=0.3, image_size=32, "
       "num_labels=num_classes))"},
  };
  for (const auto& [package, makes] : cases) {
    if (!torch_python_has(package)) continue;
    SCOPED_TRACE(makes);
    trust("my_net.py", "import " + std::string(package) +
                           "\n\n\ndef make(num_classes):\n    return " + makes + "\n");
    const Ended certified =
        here("certify own.yaml data.image_size=32 memory.micro_batch=3 --json python=" +
             python_->string());
    EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
    EXPECT_THAT(certified.out, HasSubstr("with dropout"));
    EXPECT_THAT(certified.err, Not(HasSubstr("draws random numbers on its own")));
  }
}

TEST_F(DroppingHostedModel, DropoutInCodeRecomputedOutsideAModuleIsLeftToTorch) {
  trust(
      "my_net.py",
      net("        x = torch.utils.checkpoint.checkpoint(lambda x: F.dropout(x * self.scale, 0.3, "
          "self.training), x, use_reentrant=False)\n",
          "        self.scale = nn.Parameter(torch.ones(3, 1, 1))\n",
          "import torch.utils.checkpoint\n"));
  const Ended planned = here("plan own.yaml memory.micro_batch=4 python=" + python_->string());
  EXPECT_EQ(planned.exit, 78) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("the network draws random numbers on its own"));
  EXPECT_THAT(planned.err, HasSubstr("dropout (my_net.py:"));
}

TEST_F(DroppingHostedModel, AttentionWithDropoutMatchesTorch) {
  const Ended same = python_with_host(R"(
from retort_host.functions import Functions

functions, functional = Functions(torch), torch.nn.functional
torch.manual_seed(1)
mask = torch.rand(3, 1, 5, 6) > 0.4
mask[0, 0, 0] = False  # a query without keys
for heads, is_grouped in ((4, False), (2, True)):
    query, key, value = torch.randn(3, 4, 5, 8), torch.randn(3, heads, 6, 8), torch.randn(3, heads, 6, 8)
    for options in ({}, {"attn_mask": mask}, {"attn_mask": torch.randn(5, 6)}, {"is_causal": True}, {"scale": 0.3}):
        class Attention(torch.nn.Module):
            def forward(self, probability):
                return functional.scaled_dot_product_attention(query, key, value, dropout_p=probability,
                                                               enable_gqa=is_grouped, **options)

        attention = Attention()
        functions.track(attention, lambda number, x, probability: lambda weights, probability: weights * (1 + number))
        torch.testing.assert_close(attention(0.5), attention(0.0))
        assert functions.outside == 0
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(DroppingHostedModel, AlphaDropoutMatchesTorch) {
  const Ended same = python_with_host(
      "from retort_host.drops import alpha_dropout\n"
      "torch.manual_seed(1)\n"
      "x = torch.full((64, 8), 10.0)\n"
      "for p in (0.1, 0.5):\n"
      "    expected = torch.nn.functional.alpha_dropout(x, p, training=True)\n"
      "    kept = expected > expected.mean()\n"
      "    assert 0 < kept.float().mean() < 1\n"
      "    torch.testing.assert_close(alpha_dropout(x, kept, p), expected)\n");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(DroppingHostedModel, DropBlockMatchesTimmAndTorchvisionForOneSample) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "that Python has no package 'timm'";
  const Ended same = python_with_host(R"(
from timm.layers import DropBlock2d
from torchvision import ops
from retort_host.drops import replacement_of

drawn = []
draw = torch.Tensor.bernoulli_

def draw_and_keep(numbers, probability):
    drawn.append(probability)
    return draw(numbers, probability)

def drop(ones, probability):
    assert abs(probability - drawn[-1]) < 1e-9
    return 1 - draw(torch.empty_like(ones), probability)

torch.Tensor.bernoulli_ = draw_and_keep
image, video = torch.rand(1, 6, 12, 11) + 0.5, torch.rand(1, 2, 6, 7, 8) + 0.5
for layer, x in [(DropBlock2d(0.2, 5), image), (DropBlock2d(0.2, 4), image), (DropBlock2d(0.1, 20), image),
                 (DropBlock2d(0.2, 3, couple_channels=False), image),
                 (DropBlock2d(0.2, 3, scale_by_keep=False), image),
                 (ops.DropBlock2d(0.2, 3), image), (ops.DropBlock3d(0.2, 3), video)]:
    run = replacement_of(torch, layer).forward(layer, drop)
    torch.manual_seed(3)
    expected = layer(x)
    torch.manual_seed(3)
    torch.testing.assert_close(run(x), expected)
    layer.eval()
    assert run(x) is x
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(DroppingHostedModel, AsManyPatchesAreDroppedAsInTimm) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "that Python has no package 'timm'";
  const Ended same = python_with_host(R"(
from timm.layers.patch_dropout import PatchDropout, PatchDropoutWithIndices
from retort_host.drops import replacement_of

def drop(ones, probability):
    return torch.empty_like(ones).bernoulli_(1 - probability) / (1 - probability)

x = torch.arange(33.0).view(3, 11, 1).expand(-1, -1, 4).contiguous()
for layer in PatchDropoutWithIndices(0.4, 2), PatchDropoutWithIndices(0.4, 0, ordered=True), PatchDropoutWithIndices(0.99, 1):
    prefix = layer.num_prefix_tokens
    dropped, chosen = replacement_of(torch, layer).forward(layer, drop)(x)
    assert dropped.shape == layer(x)[0].shape and chosen.shape == layer(x)[1].shape
    assert torch.equal(dropped[:, :prefix], x[:, :prefix])
    assert torch.equal(dropped[:, prefix:, 0].long(), x[:, :1, 0].long() + prefix + chosen)
    assert all(len(set(row)) == len(row) for row in chosen.tolist())
    assert not layer.ordered or torch.equal(chosen, chosen.sort(1)[0])
choices = {tuple(replacement_of(torch, layer).forward(layer, drop)(x)[1][0].tolist()) for _ in range(200)}
assert len(choices) == 10, 'each of the ten patches is chosen'
layer.eval()
assert replacement_of(torch, layer).forward(layer, drop)(x) == (x, None)
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

}  // namespace
