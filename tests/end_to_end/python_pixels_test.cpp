// End-to-end tests of image_size: auto and normalize: auto, which a Python network determines.

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

constexpr const char* kAuto = "data.image_size=auto data.normalize=auto ";
constexpr const char* kConfig =
    "        self.pretrained_cfg = {'input_size': (3, 20, 20), 'mean': (0.5, 0.25, 0.125), 'std': "
    "(0.25, 0.5, 1)}\n";

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
                              "data.normalize={mean: [0.5, 0.25, 0.125], std: [0.25, 0.5, 1.0]}")));
  const json data = data_of("run");
  EXPECT_EQ(data.at("image_size"), 20);
  EXPECT_EQ(data.at("normalize"), json({{"mean", {0.5, 0.25, 0.125}}, {"std", {0.25, 0.5, 1.0}}}));
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
                                 Not(HasSubstr("data.image_size"))));
}

TEST_F(HostedModelPixels, NetworkWithoutImageSettingsIsAnError) {
  trust("my_net.py", net());
  const Ended run = train(kAuto);
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("image_size is auto, but the network does not say for which image "
                              "size it was made [/data/image_size]"),
                    HasSubstr("help: set it, such as data.image_size=224"),
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

TEST_F(HostedModelPixels, LibrariesSpecifyHowImagesArePrepared) {
  for (const char* package : {"timm", "torchvision", "transformers"})
    if (!torch_python_has(package))
      GTEST_SKIP() << "this Python has no package '" << package << "'";
  folder_.write("vit/preprocessor_config.json",
                R"({"size": {"height": 48, "width": 48}, "image_mean": [0.5, 0.5, 0.5], )"
                R"("image_std": [0.25, 0.25, 0.25]})");
  folder_.write("convnext/preprocessor_config.json",
                R"({"size": {"shortest_edge": 80}, "do_center_crop": true, "crop_size": 64, )"
                R"("do_normalize": false})");
  const Ended same = python("import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR
                            "/stages/python')\n"
                            R"(
import timm, torch
from torchvision import models
from retort_host.pixels import pixels_for

def said(entry, function, **arguments):
    def make():
        with torch.device("meta"):
            return function(**arguments)
    found = pixels_for(entry, function, arguments, make)
    return found.get("image_size"), found.get("mean"), found.get("std")

imagenet = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
half = [0.5] * 3, [0.5] * 3
for name, size, numbers in [("vit_small_patch14_dinov2", 518, imagenet), ("vit_tiny_patch16_224", 224, half),
                            ("resnet18", 224, imagenet)]:
    assert said("timm:create_model", timm.create_model, model_name=name) == (size, *numbers), name
assert said("timm:create_model", timm.create_model, model_name="vit_small_patch14_dinov2", img_size=56)[0] == 56
for function, size in [(models.resnet18, 224), (models.efficientnet_b3, 300), (models.vit_h_14, 224)]:
    entry = "torchvision.models:" + function.__name__
    assert said(entry, function, num_classes=3) == (size, *imagenet), entry

def load(pretrained_model_name_or_path):
    raise AssertionError("the weights are not read")

entry = "transformers:AutoModelForImageClassification.from_pretrained"
assert said(entry, load, pretrained_model_name_or_path="vit") == (48, [0.5] * 3, [0.25] * 3)
assert said(entry, load, pretrained_model_name_or_path="convnext") == (64, [0.0] * 3, [1.0] * 3)
assert said(entry, load, pretrained_model_name_or_path="photos") == (None, None, None)
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

}  // namespace
