// End-to-end tests of `retort export` for convolutional networks: the files exist, and timm
// computes the same results from them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/export_fixture.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

class ConvolutionalExport : public Export {
 protected:
  /// Trains for one epoch of a few steps.
  Ended train_network(const std::string& options, const std::string& name) {
    return retort(
        "run classify data.root=photos data.image_size=64 data.augment.horizontal_flip=0 "
        "data.loader.workers=0 epochs=1 batch_size=8 lr=0.001 " +
            options + " run.dir=" + name + " -q",
        folder_.path());
  }
  const std::string small_ =
      "model=se_resnext50_32x4d model.weights=null model.layers=[1,1,1,1] model.cardinality=2 ";
};
INSTANTIATE_TEST_SUITE_P(Of, ConvolutionalExport, testing::Values(kTimm),
                         [](const auto& info) { return info.param.name; });

TEST_P(ConvolutionalExport, WritesATimmBackboneAndASeparateHead) {
  const Ended trained = train_network(small_ + "'model.head.widths=[16]'", "run");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const Ended ended = exported("run", "", "out");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "out/README.md\nout/classes.json\nout/config.json\nout/head.safetensors\nout/"
            "model.safetensors\n"
            "out/preprocessor_config.json\n");
  const json config = parsed("out/config.json");
  EXPECT_EQ(config["architecture"], "seresnext50_32x4d");
  EXPECT_EQ(config["num_classes"], 0);
  EXPECT_EQ(config["model_args"],
            (json{{"layers", {1, 1, 1, 1}}, {"cardinality", 2}, {"base_width", 4}}));
  EXPECT_EQ(config["pretrained_cfg"]["input_size"], (json{3, 64, 64}));
  const auto weights = tensors("out/model.safetensors"), head = tensors("out/head.safetensors");
  EXPECT_EQ(weights.at("layer1.0.se.fc1.weight"), "F32 [16,256,1,1]");
  EXPECT_EQ(weights.at("bn1.num_batches_tracked"), "I64 []");
  EXPECT_EQ(weights.count("fc.weight"), 0u);
  EXPECT_EQ(head.at("1.weight"), "F32 [16,2048]");
  EXPECT_EQ(head.at("3.running_mean"), "F32 [16]");
  EXPECT_EQ(head.at("5.weight"), "F32 [3,16]");
  EXPECT_THAT(file_text(folder_ / "out/README.md"),
              HasSubstr("    torch.nn.Dropout(), torch.nn.Linear(2048, 16), torch.nn.ReLU(), "
                        "torch.nn.BatchNorm1d(16),\n"
                        "    torch.nn.Dropout(), torch.nn.Linear(16, 3)).eval()\n"));
  EXPECT_THAT(exported("run", "--adapter", "no").err,
              HasSubstr("error[E0314]: the model has no adapters: its own weights were trained"));
  EXPECT_THAT(exported("run", "--torchscript", "no").err,
              HasSubstr("error[E0314]: a convolutional network cannot be exported as one program"));

  // Train again from the exported weights, and export the result.
  const Ended again = retort(
      "run classify data.root=photos data.image_size=64 data.loader.workers=0 epochs=1 "
      "batch_size=8 " +
          small_ +
          "'model.head.widths=[]' 'model.frozen=[stem,layer1]' "
          "model.weights=out/model.safetensors run.dir=again",
      folder_.path());
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.out + again.err,
              HasSubstr("'out/model.safetensors': " + std::to_string(weights.size()) + " tensors"));
  ASSERT_EQ(exported("again", "", "single").exit, 0);
  EXPECT_EQ(tensors("single/model.safetensors").at("fc.weight"), "F32 [3,2048]");
  EXPECT_FALSE(fs::exists(folder_ / "single/head.safetensors"));
  EXPECT_EQ(parsed("single/config.json")["num_classes"], 3);
}

TEST_P(ConvolutionalExport, GatesUnsupportedByTimmAreRejected) {
  const Ended trained = train_network(small_ + "model.squeeze_ratio=8", "run");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(exported("run", "", "out").err,
              HasSubstr("error[E0314]: timm's gates have one channel per 16 of their block, "
                        "but this model's gates have one per 8"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

class DeepConvolutionalExport : public DeepExport {};
INSTANTIATE_TEST_SUITE_P(
    Deep, DeepConvolutionalExport,
    testing::Values(Backbone{"seresnext50", "timm", "se_resnext50_32x4d"},
                    Backbone{"small_seresnext", "timm",
                             "se_resnext50_32x4d model.layers=[1,1,1,1] model.cardinality=2"},
                    Backbone{"resnet50", "timm", "resnet50 'model.head.widths=[]'"},
                    Backbone{"densenet121", "timm", "densenet121"},
                    Backbone{"efficientnet_b2", "timm", "efficientnet_b2 'model.head.widths=[]'"},
                    Backbone{"mobilenetv2_100", "timm", "mobilenetv2_100"}),
    [](const auto& info) { return info.param.name; });

TEST_P(DeepConvolutionalExport, TimmAndTheReadmeProgramMakeTheSamePredictions) {
  if (!torch_python()) GTEST_SKIP() << kNoTorchPython;
  const Ended trained = retort(
      "run classify data.root=photos data.image_size=64 data.loader.workers=0 epochs=1 "
      "batch_size=8 lr=0.001 model.weights=null run.dir=run -q model=" +
          GetParam().options,
      folder_.path());
  ASSERT_EQ(trained.exit, 0) << trained.err;
  expect_the_same_predictions("run", "");
}

}  // namespace
