#include "stages/train/warm_start.h"

#include <fstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/weights/safetensors.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// A training that is done, in the folder of a node of a run.
class WarmStart : public testing::Test {
 protected:
  WarmStart() {
    before_.run();
    fs::create_directories(run() / "nodes");
    fs::copy(before_.context.node().folder, run() / "nodes/train", fs::copy_options::recursive);
  }
  fs::path run() const { return context_.node().folder / "run"; }
  std::shared_ptr<torch::nn::Module> begun(const fs::path& path) {
    auto network = before_.step.model.build(before_.train_data->describe(), 99);
    warm_start(*network, path, context_);
    return network;
  }
  std::string error(const fs::path& path) {
    try {
      begun(path);
    } catch (const runner::StageError& error) {
      EXPECT_EQ(error.option, "/warm_start");
      return runner::name(error.code) + " " + error.what();
    }
    return "begun";
  }
  bool is_trained(const torch::nn::Module& network) const {
    const NamedTensors wanted = weights(*before_.network);
    return std::ranges::all_of(weights(network), [&](const auto& item) {
      return item.second.equal(wanted.at(item.first));
    });
  }
  TinyTraining before_;
  RecordingContext context_;
};

TEST_F(WarmStart, TakesAFileACheckpointANodeOrARun) {
  const fs::path checkpoints = run() / "nodes/train/checkpoints";
  std::string best;
  std::ifstream(checkpoints / "best") >> best;
  for (const fs::path& path : {checkpoints / best / "model.safetensors", checkpoints / best,
                               checkpoints, run() / "nodes/train", run()}) {
    EXPECT_TRUE(is_trained(*begun(path))) << path;
  }
  EXPECT_THAT(context_.said.back(),
              HasSubstr("starts from the weights of '" + (checkpoints / best).string() + "'"));
}

TEST_F(WarmStart, ResumedTrainingKeepsItsOwn) {
  context_.facts.resuming = true;
  EXPECT_TRUE(is_trained(*begun(run())));  // it has saved nothing yet
  fs::copy(run() / "nodes/train", context_.node().folder, fs::copy_options::recursive);
  EXPECT_FALSE(is_trained(*begun(run())));
}

TEST_F(WarmStart, SaysAllThatDoesNotFit) {
  const fs::path file = context_.node().folder / "other.safetensors";
  write_safetensors(
      file,
      {{"0.weight", torch::zeros({8, 3})}, {"0.bias", torch::zeros(8)}, {"head", torch::zeros(1)}});
  EXPECT_EQ(error(file), "E0314 the weights in '" + file.string() +
                             "' do not fit the network: 2 missing (2.weight, 2.bias), 1 unexpected "
                             "(head), 1 of another "
                             "shape (0.weight [8, 3] for [8, 2])");
}

TEST_F(WarmStart, WhatIsNotATrainingIsRefused) {
  EXPECT_EQ(error(run() / "x"), "E0621 there is no '" + (run() / "x").string() + "'");
  EXPECT_EQ(error(run() / "nodes"),
            "E0621 '" + (run() / "nodes").string() + "' holds no checkpoint");
  fs::copy(run() / "nodes/train", run() / "nodes/train.b", fs::copy_options::recursive);
  EXPECT_EQ(error(run()),
            "E0621 the run '" + run().string() + "' has several trainings: train, train.b");
  const fs::path file = context_.node().folder / "broken.safetensors";
  std::ofstream(file) << "no weights";
  EXPECT_THAT(error(file), HasSubstr("E0620 "));
}

}  // namespace
}  // namespace stages
