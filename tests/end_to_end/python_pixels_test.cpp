// End-to-end tests of image_size, resize and normalize: auto, which a Python network determines.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_model.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

constexpr const char* kAuto = "data.image_size=auto data.resize=auto data.normalize=auto ";
constexpr const char* kConfig =
    "        self.pretrained_cfg = {'input_size': (3, 20, 20), 'mean': (0.5, 0.25, 0.125), 'std': "
    "(0.25, 0.5, 1), 'interpolation': 'bilinear', 'crop_pct': 0.75}\n";

class HostedModelPixels : public HostedModel {
 protected:
  /// The options of the data in a run's record.
  json data_of(const std::string& name) const {
    const json graph = json::parse(file_text(folder_ / name / ".retort/graph.json"));
    for (const json& node : graph.at("nodes"))
      if (node.at("id") == "data") return node.at("options");
    return {};
  }
};

TEST_F(HostedModelPixels, RunRecordsTheNetworksImageSettings) {
  trust("my_net.py", net("", kConfig));
  const Ended run = train(std::string(kAuto) + "train.epochs=1");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("image_size: auto is from pretrained_cfg of the network: "
                              "data.image_size=20"),
                    HasSubstr("normalize: auto is from pretrained_cfg of the network: "
                              "data.normalize={mean: [0.5, 0.25, 0.125], std: [0.25, 0.5, 1.0]}"),
                    HasSubstr("resize: auto is from pretrained_cfg of the network: "
                              "data.resize={interpolation: bilinear, crop_fraction: 0.75, "
                              "crop_offset: round, shape: shortest_side}"),
                    Not(HasSubstr("warning"))));
  const json data = data_of("run");
  EXPECT_EQ(data.at("image_size"), 20);
  EXPECT_EQ(data.at("normalize"), json({{"mean", {0.5, 0.25, 0.125}}, {"std", {0.25, 0.5, 1.0}}}));
  EXPECT_EQ(data.at("resize"), json({{"interpolation", "bilinear"},
                                     {"crop_fraction", 0.75},
                                     {"crop_offset", "round"},
                                     {"shape", "shortest_side"}}));
  const Ended again = here("runs rerun run run.dir=again");
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(weights("again") == weights("run"));
  const Ended recorded = here("runs rerun run run.dir=third data.image_size=auto");
  EXPECT_NE(recorded.exit, 0);
  EXPECT_THAT(recorded.err,
              HasSubstr("data.image_size: auto is for new runs, and this run already has a record "
                        "[/data/image_size]"));
}

TEST_F(HostedModelPixels, ExplicitValueIsKept) {
  trust("my_net.py", net("", kConfig));
  const Ended planned = here("plan own.yaml data.image_size=24 data.normalize=auto --json python=" +
                             python_->string());
  ASSERT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.err, AllOf(HasSubstr("data.normalize={mean: [0.5, 0.25, 0.125]"),
                                 Not(HasSubstr("data.image_size")), Not(HasSubstr("data.resize"))));
}

TEST_F(HostedModelPixels, NetworkWithoutImageSettingsIsAnError) {
  trust("my_net.py", net());
  const Ended run = train(kAuto);
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("image_size is auto, but the network does not say for which image "
                              "size it was made [/data/image_size]"),
                    HasSubstr("help: set it, such as data.image_size=224"),
                    HasSubstr("resize is auto, but the network does not say how its images are "
                              "resized [/data/resize]"),
                    HasSubstr("help: set it, such as 'data.resize={interpolation: bicubic, "
                              "crop_fraction: 0.875}'"),
                    HasSubstr("normalize is auto, but the network does not say how its images are "
                              "normalized [/data/normalize]"),
                    HasSubstr("help: set it, such as 'data.normalize={mean: [0.485, 0.456, 0.406], "
                              "std: [0.229, 0.224, 0.225]}'")));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(HostedModelPixels, MalformedConfigIsIgnored) {
  trust("my_net.py",
        net("", "        self.pretrained_cfg = {'input_size': 20, 'mean': 0.5, 'std': (1, 1)}\n"));
  EXPECT_THAT(train(kAuto).err, AllOf(HasSubstr("does not say for which image size"),
                                      HasSubstr("does not say how its images are normalized")));
}

TEST_F(HostedModelPixels, StepsThatResizeCannotExpressAreReported) {
  trust("my_net.py", net("",
                         "        self.pretrained_cfg = {'interpolation': 'lanczos', 'crop_pct': "
                         "0.75, 'crop_mode': 'border'}\n"));
  const Ended planned = here("plan own.yaml data.resize=auto python=" + python_->string());
  ASSERT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.err,
              AllOf(HasSubstr("data.resize={interpolation: bicubic, crop_fraction: 0.75, "
                              "crop_offset: round, shape: shortest_side}"),
                    HasSubstr("warning[E0314]: pretrained_cfg of the network specifies "
                              "interpolation lanczos, crop_mode border, which resize cannot do "
                              "[/data/resize]")));
}

TEST_F(HostedModelPixels, OnlyTrustedNetworksAreQueried) {
  folder_.write("unread.py", "open('ran', 'w')\n");
  const Ended run = train(std::string(kAuto) + "model.entry=unread.py:make");
  EXPECT_NE(run.exit, 0);
  EXPECT_THAT(run.err, HasSubstr("retort trust unread.py"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
  trust("my_net.py", net("", "        raise ValueError('no luck')\n"));
  const Ended raised = train(kAuto);
  EXPECT_NE(raised.exit, 0);
  EXPECT_THAT(raised.err, AllOf(HasSubstr("ValueError: no luck"), HasSubstr("[/model/entry]")));
}

TEST_F(HostedModelPixels, MissingFilesAreReportedBeforePythonStarts) {
  trust("my_net.py", net("", "        open('created', 'w')\n"));
  const Ended run = train(std::string(kAuto) + "data.root=nowhere");
  EXPECT_NE(run.exit, 0);
  EXPECT_THAT(run.err, HasSubstr("there is no folder 'nowhere' [/data/root]"));
  EXPECT_FALSE(fs::exists(folder_ / "created"));
}

/// Every command imports torch, which takes seconds.
class DeepHostedModelPixels : public HostedModelPixels {};

TEST_F(DeepHostedModelPixels, EachTrialOfASweepQueriesItsNetwork) {
  trust("my_net.py",
        net("", "        self.pretrained_cfg = {'input_size': (3, 8 * depth, 8 * depth)}\n"));
  const Ended swept = here(
      "sweep own.yaml train.epochs=1 sweep.dir=swept data.image_size=auto "
      "+model.arguments.depth=2,3 --slots auto python=" +
      python_->string());
  ASSERT_EQ(swept.exit, 0) << swept.err;
  for (const auto& [trial, size] : {std::pair("0", 16), std::pair("1", 24)})
    EXPECT_EQ(data_of(std::string("swept/") + trial).at("image_size"), size);
}

TEST_F(DeepHostedModelPixels, PixelsAreThoseOfTimm) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "this Python has no package 'timm'";
  // The heights do not shrink much more than the widths, since Pillow 13 then resizes in another
  // order than Pillow 12.
  const Ended made = python(R"(
import os, numpy
from PIL import Image
generator = numpy.random.default_rng(0)
for part, label in [("train", "a"), ("train", "b"), ("test", "a"), ("test", "b")]:
    os.makedirs(f"wide/{part}/{label}")
    for number, size in enumerate([(60, 50, 3), (47, 82, 3), (33, 33, 3), (90, 70, 3)]):
        pixels = generator.integers(0, 256, size).astype("uint8")
        Image.fromarray(pixels).save(f"wide/{part}/{label}/{number}.png")
)");
  ASSERT_EQ(made.exit, 0) << made.err;
  int run = 0;
  for (const std::string config :
       {"'interpolation': 'bicubic', 'crop_pct': 0.875",
        "'interpolation': 'bilinear', 'crop_pct': 1.0",
        "'interpolation': 'bilinear', 'crop_pct': 0.9, 'crop_mode': 'center'",
        "'interpolation': 'bicubic', 'crop_pct': 1.0, 'crop_mode': 'squash'"}) {
    const std::string whole =
        "{'input_size': (3, 32, 32), 'mean': (0.5, 0.25, 0.125), 'std': "
        "(0.25, 0.5, 1), " +
        config + "}";
    const std::string folder = "seen" + std::to_string(++run);
    fs::create_directory(folder_ / folder);
    trust("my_net.py", net("        if not self.training and x.device.type == 'cpu':\n"
                           "            import time; torch.save(x, f'" +
                               folder + "/{time.monotonic_ns()}')",
                           "        self.pretrained_cfg = " + whole + "\n"));
    const Ended trained =
        train(std::string(kAuto) + "data.root=wide train.epochs=1 ", folder + "run");
    ASSERT_EQ(trained.exit, 0) << trained.err;
    const Ended same = python(
        "import glob, torch\nfrom PIL import Image\n"
        "from timm.data import create_transform, resolve_data_config\n"
        "transform = create_transform(**resolve_data_config(pretrained_cfg=" +
        whole +
        "))\n"
        "seen = torch.cat([torch.load(file) for file in glob.glob('" +
        folder +
        "/*')])\n"
        R"(
files = glob.glob("wide/test/*/*")
assert len(files) == 8
for file in files:
    wanted = transform(Image.open(file))
    difference = (seen - wanted).abs().amax((1, 2, 3)).min().item()
    assert difference < 1e-6, (file, difference)
)");
    EXPECT_EQ(same.exit, 0) << config << same.err;
  }
}

TEST_F(DeepHostedModelPixels, PixelsAreThoseOfTransformersInPillow) {
  if (!torch_python_has("transformers"))
    GTEST_SKIP() << "this Python has no package 'transformers'";
  const Ended same = python("import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR
                            "/stages/python')\n"
                            R"(
import json, math, os
import numpy
from PIL import Image
from transformers import AutoImageProcessor
from retort_host.pixels import pixels_of_transformers

generator = numpy.random.default_rng(0)
images = [Image.fromarray(generator.integers(0, 256, (*size, 3)).astype("uint8")) for size in [(61, 44), (43, 77), (90, 90)]]

def prepared(image, size, interpolation, crop_fraction, crop_offset, shape):
    assert crop_offset == "floor"
    side, (width, height) = math.floor(size / crop_fraction), image.size
    shorter, longer = min(width, height), max(width, height)
    resized = (side, side * longer // shorter) if width < height else (side * longer // shorter, side)
    image = image.resize((size, size) if shape == "square" else resized, Image.Resampling[interpolation.upper()])
    left, top = (image.width - size) // 2, (image.height - size) // 2
    return numpy.asarray(image.crop((left, top, left + size, top + size)), "float32") / 255

for kind, config in [
        ("ViT", {"size": {"height": 48, "width": 48}}), ("ViT", {}), ("Siglip", {}), ("Beit", {}), ("Bit", {}),
        ("CLIP", {"size": {"shortest_edge": 80}, "crop_size": {"height": 64, "width": 64}}),
        ("ConvNext", {"size": {"shortest_edge": 40}, "crop_pct": 0.9}), ("ConvNext", {"size": {"shortest_edge": 384}}),
        ("Levit", {"size": {"shortest_edge": 56}, "crop_size": {"height": 56, "width": 56}}),
        ("PoolFormer", {"size": {"shortest_edge": 56}, "crop_size": {"height": 50, "width": 50}})]:
    os.makedirs("images", exist_ok=True)
    with open("images/preprocessor_config.json", "w") as file:
        json.dump({"image_processor_type": kind + "ImageProcessor", "do_normalize": False, **config}, file)
    said = pixels_of_transformers({"pretrained_model_name_or_path": "images"})
    assert not said["lost"], (kind, said)
    processor = AutoImageProcessor.from_pretrained("images", backend="pil")
    for image in images:
        theirs = processor(image, return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)
        ours = prepared(image, said["image_size"], **said["resize"])
        assert ours.shape == theirs.shape, (kind, ours.shape, theirs.shape)
        assert abs(ours - theirs).max() < 1e-6, (kind, said)
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(HostedModelPixels, LibrariesSpecifyHowImagesArePrepared) {
  for (const char* package : {"timm", "torchvision", "transformers"})
    if (!torch_python_has(package))
      GTEST_SKIP() << "this Python has no package '" << package << "'";
  folder_.write("vit/preprocessor_config.json",
                R"({"size": {"height": 48, "width": 48}, "image_mean": [0.5, 0.5, 0.5], )"
                R"("image_std": [0.25, 0.25, 0.25], "image_processor_type": "ViTImageProcessor"})");
  folder_.write("old/preprocessor_config.json", R"({"size": 48})");
  folder_.write("clip/preprocessor_config.json",
                R"({"size": {"shortest_edge": 80}, "do_center_crop": true, "crop_size": 64, )"
                R"("do_normalize": false, "resample": 3})");
  folder_.write("convnext/preprocessor_config.json",
                R"({"size": 224, "feature_extractor_type": "ConvNextFeatureExtractor"})");
  folder_.write("large/preprocessor_config.json",
                R"({"size": {"shortest_edge": 384}, "crop_pct": 0.875, "resample": 2, )"
                R"("image_processor_type": "ConvNextImageProcessor"})");
  folder_.write("deit/preprocessor_config.json",
                R"({"size": 256, "crop_size": 224, "do_center_crop": true, "resample": 1, )"
                R"("image_processor_type": "DeiTImageProcessor"})");
  const Ended same = python("import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR
                            "/stages/python')\n"
                            R"(
import timm, torch
from torchvision import models
from retort_host.pixels import pixels_for

resized = []

def said(entry, function, **arguments):
    def make():
        with torch.device("meta"):
            return function(**arguments)
    found = pixels_for(entry, function, arguments, make)
    assert not found.get("lost"), found
    resize = found.get("resize", {})
    resized[:] = [resize.get(key) for key in ("interpolation", "crop_fraction", "crop_offset", "shape")]
    return found.get("image_size"), found.get("mean"), found.get("std")

imagenet = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
half = [0.5] * 3, [0.5] * 3
center = ["round", "shortest_side"]
for name, size, numbers, resize in [
        ("vit_small_patch14_dinov2", 518, imagenet, ["bicubic", 1.0, *center]),
        ("vit_tiny_patch16_224", 224, half, ["bicubic", 0.9, *center]),
        ("resnet18", 224, imagenet, ["bicubic", 0.95, *center]),
        ("csatv2", 512, imagenet, ["bilinear", 1.0, *center]),
        ("coat_lite_medium_384", 384, imagenet, ["bicubic", 1.0, "round", "square"])]:
    assert said("timm:create_model", timm.create_model, model_name=name) == (size, *numbers), name
    assert resized == resize, (name, resized)
assert said("timm:create_model", timm.create_model, model_name="vit_small_patch14_dinov2", img_size=56)[0] == 56
for function, size, resize in [(models.resnet18, 224, ["bilinear", 0.875]), (models.efficientnet_b3, 300, ["bicubic", 0.9375]),
                               (models.swin_v2_t, 256, ["bicubic", 0.9846]), (models.vit_h_14, 224, ["bicubic", 1.0])]:
    entry = "torchvision.models:" + function.__name__
    assert said(entry, function, num_classes=3) == (size, *imagenet), entry
    assert resized == [*resize, *center], (entry, resized)

def load(pretrained_model_name_or_path):
    raise AssertionError("the weights are not read")

entry = "transformers:AutoModelForImageClassification.from_pretrained"
assert said(entry, load, pretrained_model_name_or_path="vit") == (48, [0.5] * 3, [0.25] * 3)
assert resized == ["bilinear", 1.0, "floor", "square"], resized
assert said(entry, load, pretrained_model_name_or_path="clip") == (64, [0.0] * 3, [1.0] * 3)
assert resized == ["bicubic", 0.8, "floor", "shortest_side"], resized
assert said(entry, load, pretrained_model_name_or_path="convnext")[0] == 224
assert resized == ["bicubic", 0.875, "floor", "shortest_side"], resized
assert said(entry, load, pretrained_model_name_or_path="large")[0] == 384
assert resized == ["bilinear", 1.0, "floor", "square"], resized
for unknown in "old", "photos":
    said(entry, load, pretrained_model_name_or_path=unknown)
    assert resized == [None] * 4, resized
assert said(entry, load, pretrained_model_name_or_path="photos") == (None, None, None)
deit = pixels_for(entry, load, {"pretrained_model_name_or_path": "deit"}, None)
assert deit["lost"] == ["interpolation lanczos", "a center crop of 224 from 256 by 256 pixels"], deit
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

}  // namespace
