#include "stages/train/warm_start.h"

#include <fstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/checkpoint/checkpoints.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/weights/safetensors.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// A finished training run, in the folder of a node of a run.
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
  runner::Diagnostics error(const fs::path& path) {
    return refusals_of([&] { begun(path); });
  }
  bool is_trained(const torch::nn::Module& network) const {
    const NamedTensors wanted = weights(*before_.network);
    return std::ranges::all_of(weights(network), [&](const auto& item) {
      return item.second.cpu().equal(wanted.at(item.first).cpu());
    });
  }
  TinyTraining before_;
  RecordingContext context_;
};

TEST_F(WarmStart, AcceptsAFileACheckpointANodeOrARun) {
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

TEST_F(WarmStart, WeightsOfOtherRanksAreNotRead) {
  auto network = before_.step.model.build(before_.train_data->describe(), 99);
  const at::Tensor elsewhere = network->parameters().front();
  free_memory(elsewhere);
  warm_start(*network, run(), context_);
  EXPECT_FALSE(has_memory(elsewhere));
  allocate_memory(elsewhere);
  const torch::NoGradGuard no_graph;
  elsewhere.copy_(before_.network->parameters().front());
  EXPECT_TRUE(is_trained(*network));
}

TEST_F(WarmStart, ResumedTrainingKeepsItsOwnWeights) {
  context_.facts.resuming = true;
  EXPECT_TRUE(is_trained(*begun(run())));  // nothing has been saved yet
  fs::copy(run() / "nodes/train", context_.node().folder, fs::copy_options::recursive);
  EXPECT_FALSE(is_trained(*begun(run())));
}

TEST_F(WarmStart, UsesTheBestCheckpointIfAHigherMetricIsBetter) {
  const fs::path folder = run() / "accurate";
  Checkpoints saved(folder, {.keep_last = 2, .keep_best = 1, .higher_is_better = true});
  TrainingState state;
  state.model = weights(*before_.network);
  state.step = 1;
  state.metric = 0.9;
  saved.save(state);
  for (const auto& [name, weight] : weights(*before_.network))
    state.model.set(name, torch::zeros_like(weight));
  state.step = 2;
  state.metric = 0.1;
  saved.save(state);
  EXPECT_TRUE(is_trained(*begun(folder)));
}

TEST_F(WarmStart, ReportsAllMismatches) {
  const fs::path file = context_.node().folder / "other.safetensors";
  write_safetensors(
      file,
      {{"0.weight", torch::zeros({8, 3})}, {"0.bias", torch::zeros(8)}, {"head", torch::zeros(1)}});
  EXPECT_REFUSED(
      error(file), kOptionConflict, "/warm_start", file.string(),
      "2 missing (2.weight, 2.bias), 1 unexpected (head), 1 with a different shape (0.weight "
      "[8, 3] for [8, 2])");
}

TEST_F(WarmStart, NonTrainingRunIsRejected) {
  EXPECT_REFUSED(error(run() / "x"), kMissingWeights, "/warm_start", (run() / "x").string());
  EXPECT_REFUSED(error(run() / "nodes"), kMissingWeights, "/warm_start",
                 (run() / "nodes").string());
  fs::copy(run() / "nodes/train", run() / "nodes/train.b", fs::copy_options::recursive);
  EXPECT_REFUSED(error(run()), kMissingWeights, "/warm_start", "train, train.b");
  const fs::path file = context_.node().folder / "broken.safetensors";
  std::ofstream(file) << "no weights";
  EXPECT_REFUSED(error(file), kDamagedWeights, "/warm_start");
}

}  // namespace
}  // namespace stages
