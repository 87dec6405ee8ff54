#include "stages/train/earlier_weights.h"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/train/warm_start.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_training.h"
#include "tests/support/training_states.h"

namespace stages {
namespace {

using runner::ErrorCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Choice = runner::CheckpointSource::Choice;

/// A finished training run, and another run that uses its weights.
class EarlierWeightsTest : public testing::Test {
 protected:
  EarlierWeightsTest() {
    before_.options.checkpoint.keep_last = 3;
    before_.options.checkpoint.keep_best = 2;
    result_ = before_.run();
    context_.facts.trained = {folder(), Choice::kKept};
  }
  std::filesystem::path folder() const { return before_.context.node().folder / "checkpoints"; }

  /// Loads the earlier weights into a network with other weights.
  TrainingResult take(const std::shared_ptr<torch::nn::Module>& network) {
    const auto trained = find_earlier_weights(before_.options, context_);
    if (!trained) throw std::logic_error("still to be trained");
    return load_earlier_weights(*trained, *network, context_);
  }
  TrainingResult take() {
    network_ = before_.step.model.build(before_.train_data->describe(), 99);
    return take(network_);
  }
  runner::Diagnostics error() {
    return refusals_of([&] { take(); });
  }
  static std::vector<at::Tensor> flat(const torch::nn::Module& network) {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : weights(network)) all.push_back(tensor.detach());
    return all;
  }
  bool has_the_trained_weights() const {
    const auto a = flat(*network_), b = flat(*before_.network);
    return std::ranges::equal(
        a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.cpu().equal(y.cpu()); });
  }
  static void damage(const std::filesystem::path& file) {
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp(-3, std::ios::end);
    bytes.put('\x55');
  }

  TinyTraining before_;
  TrainingResult result_;
  RecordingContext context_;
  std::shared_ptr<torch::nn::Module> network_;
};

TEST_F(EarlierWeightsTest, NothingIsFoundBeforeTraining) {
  context_.facts.trained.reset();
  EXPECT_FALSE(find_earlier_weights(before_.options, context_));
}

TEST_F(EarlierWeightsTest, AreTheFinalWeightsOfTheTrainingRun) {
  const TrainingResult taken = take();
  EXPECT_EQ(taken.step, result_.step);
  EXPECT_EQ(taken.epoch, result_.epoch);
  EXPECT_EQ(taken.file, result_.file);
  EXPECT_TRUE(has_the_trained_weights());
  EXPECT_THAT(context_.said, ElementsAre("the weights after step " + std::to_string(result_.step) +
                                         ", from '" + result_.file.parent_path().string() + "'"));
  EXPECT_TRUE(std::filesystem::exists(context_.node().folder / "checkpoint.json"));
}

TEST_F(EarlierWeightsTest, AreReadPieceByPieceIntoAnyLayout) {
  const auto folder = result_.file.parent_path();
  network_ = before_.step.model.build(before_.train_data->describe(), 99);
  for (at::Tensor& weight : network_->parameters()) {
    if (weight.dim() == 2) weight.set_data(weight.detach().t().contiguous().t());
  }
  read_weights(folder, *network_, at::kCPU);
  EXPECT_TRUE(has_the_trained_weights());
  const auto refused = [&](torch::nn::Module& network) {
    return refusals_of([&] { read_weights(folder, network, at::kCPU); }).at(0);
  };
  torch::nn::Sequential other(torch::nn::Linear(2, 3));
  EXPECT_EQ(refused(*other).code, ErrorCode::kChangedRun);
  EXPECT_THAT(refused(*other).message, HasSubstr("does not match this model"));
  damage(result_.file);
  EXPECT_EQ(refused(*network_).code, ErrorCode::kDamagedWeights);
}

TEST_F(EarlierWeightsTest, DescribeTheirTrainingData) {
  const auto trained = find_earlier_weights(before_.options, context_);
  EXPECT_EQ(trained->data.classes, before_.train_data->describe().classes);
  EXPECT_EQ(trained->data.tensors.at(0).shape, (std::vector<std::int64_t>{2}));
}

TEST_F(EarlierWeightsTest, LatestOrASpecificCheckpointCanBeSelected) {
  context_.facts.trained->choice = Choice::kLatest;
  const TrainingResult latest = take();
  EXPECT_EQ(latest.step, 16);  // four epochs of four steps
  const auto first = folder() / to_text(runner::list_checkpoints(folder()).front());
  context_.facts.trained = {first, Choice::kThis};
  EXPECT_EQ(take().file, first / "model.safetensors");
}

/// A file of a checkpoint, or a pointer to one, with a way to damage it.
struct Spoilt {
  const char* file;
  const char* how;
};

void PrintTo(const Spoilt& spoilt, std::ostream* out) { *out << spoilt.how << ' ' << spoilt.file; }

std::vector<Spoilt> all_damage() {
  std::vector<Spoilt> all;
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json",
                           "manifest.json", "../best", "../latest"}) {
    for (const char* how : {"flipped", "cut", "missing"}) all.push_back({file, how});
  }
  return all;
}

/// Everything that reads weights rejects damaged ones, and uses no others instead.
class EveryReader : public EarlierWeightsTest, public testing::WithParamInterface<Spoilt> {
 protected:
  EveryReader() {
    const auto best = *runner::pointed_to(folder() / "best"),
               latest = *runner::pointed_to(folder() / "latest");
    std::set<std::filesystem::path> files;
    for (const auto& name : {best, latest})
      files.insert((folder() / to_text(name) / GetParam().file).lexically_normal());
    std::ranges::for_each(files, spoil);
    for (const auto& name : runner::list_checkpoints(folder())) {
      if (name != best && name != latest) whole_ = folder() / to_text(name);
    }
  }
  static void spoil(const std::filesystem::path& file) {
    const std::string how = GetParam().how;
    if (how == "missing") std::filesystem::remove(file);
    else if (how == "cut") std::filesystem::resize_file(file, std::filesystem::file_size(file) - 2);
    else flip(file);
  }
  static void flip(const std::filesystem::path& file) {
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
    bytes.seekg(middle);
    const int byte = bytes.get();
    bytes.seekp(middle);
    bytes.put(static_cast<char>(byte ^ 1));
  }
  bool spoils(Choice choice) const {
    const std::string file = GetParam().file;
    return file == "../best" ? choice == Choice::kBest || choice == Choice::kKept
                             : file != "../latest" || choice == Choice::kLatest;
  }
  std::filesystem::path whole_;
};
INSTANTIATE_TEST_SUITE_P(All, EveryReader, testing::ValuesIn(all_damage()));

TEST_P(EveryReader, RejectsDamageAndSuggestsOtherCheckpoints) {
  for (const Choice choice : {Choice::kKept, Choice::kBest, Choice::kLatest}) {
    context_.facts.trained = {folder(), choice};
    if (!spoils(choice)) {
      EXPECT_NO_THROW(take());
      continue;
    }
    EXPECT_REFUSED(take(), kDamagedWeights, "", folder().string(), "--checkpoint");
  }
  context_.facts.trained = {whole_, Choice::kThis};
  EXPECT_NO_THROW(take());
}

TEST_P(EveryReader, DoesNotReuseDamagedWeights) {
  context_.facts.trained = {folder(), Choice::kKept, /*reused=*/true};
  EXPECT_EQ(find_earlier_weights(before_.options, context_).has_value(), !spoils(Choice::kKept));
}

TEST_P(EveryReader, DoesNotWarmStartFromDamagedWeights) {
  network_ = before_.step.model.build(before_.train_data->describe(), 99);
  if (!spoils(Choice::kBest)) return warm_start(*network_, folder(), context_);
  EXPECT_REFUSED(warm_start(*network_, folder(), context_), kDamagedWeights, "/warm_start",
                 folder().string(), "warm_start");
}

TEST_P(EveryReader, ResumesToTheSameWeights) {
  TinyTraining again;
  again.options = before_.options;
  std::filesystem::copy(before_.context.node().folder, again.context.node().folder,
                        std::filesystem::copy_options::recursive);
  again.context.facts.resuming = true;
  const TrainingResult result = again.run();
  EXPECT_EQ(result.step, result_.step);
  EXPECT_TRUE(again.flat_weights().equal(before_.flat_weights()));
  EXPECT_FALSE(again.context.said.empty());
  context_.facts.trained = {again.context.node().folder / "checkpoints", Choice::kKept};
  EXPECT_NO_THROW(take());
  context_.facts.trained->choice = Choice::kLatest;
  EXPECT_NO_THROW(take());
}

TEST_F(EarlierWeightsTest, ReusedWeightsMustBeUndamaged) {
  context_.facts.trained->reused = true;
  EXPECT_EQ(take().step, result_.step);
  EXPECT_TRUE(has_the_trained_weights());
  damage(result_.file);
  EXPECT_FALSE(find_earlier_weights(before_.options, context_));
  EXPECT_THAT(context_.said, testing::Contains(HasSubstr("not reused: ")));
}

TEST_F(EarlierWeightsTest, ReusedFolderWithoutACheckpointIsRetrained) {
  std::filesystem::remove_all(folder());
  context_.facts.trained->reused = true;
  EXPECT_FALSE(find_earlier_weights(before_.options, context_));
  EXPECT_THAT(context_.said,
              testing::Contains(HasSubstr("not reused: there is no checkpoint in ")));
}

TEST_F(EarlierWeightsTest, SelectedDamagedCheckpointIsAnError) {
  damage(result_.file);
  context_.facts.trained = {result_.file.parent_path(), Choice::kThis};
  EXPECT_REFUSED(error(), kDamagedWeights, "", result_.file.parent_path().string());
}

TEST_F(EarlierWeightsTest, MissingCheckpointIsAnError) {
  context_.facts.trained->folder = context_.node().folder / "none";
  EXPECT_REFUSED(error(), kNoCheckpoint, "", (context_.node().folder / "none").string());
}

TEST_F(EarlierWeightsTest, BestNeedsAMonitoredMetric) {
  TinyTraining unmeasured;
  unmeasured.validation = nullptr;
  unmeasured.run();
  context_.facts.trained = {unmeasured.context.node().folder / "checkpoints", Choice::kBest};
  EXPECT_REFUSED(error(), kNoCheckpoint, "", "validation data");
  context_.facts.trained->choice = Choice::kKept;
  EXPECT_EQ(take().step, 16);
}

TEST_F(EarlierWeightsTest, WeightsWithoutADataDescriptionAreRejected) {
  const auto folder = context_.node().folder / "step-00000005";
  std::filesystem::create_directories(folder);
  write_checkpoint(folder, training_state(5), runner::disk());
  context_.facts.trained = {folder, Choice::kThis};
  EXPECT_REFUSED(error(), kDamagedWeights, "", folder.string(), "'classes'");
}

TEST_F(EarlierWeightsTest, WeightsFromAnotherNetworkAreRejected) {
  const auto other =
      torch::nn::Sequential(torch::nn::Linear(2, 9), torch::nn::Tanh(), torch::nn::Linear(9, 3))
          .ptr();
  EXPECT_REFUSED(take(other), kChangedRun, "", "does not match");
}

/// A training run that averages its weights, and another run that uses either kind.
class EarlierAverage : public testing::TestWithParam<bool> {
 protected:
  EarlierAverage() {
    before_.options.average = {.decay = 0.9, .is_result = GetParam()};
    before_.options.keep = Keep::kLast;
    before_.run();
    context_.facts.trained = {before_.context.node().folder / "checkpoints", Choice::kKept};
  }
  NamedTensors taken(std::optional<bool> averaged) {
    context_.facts.trained->averaged = averaged;
    context_.said.clear();
    const auto network = before_.step.model.build(before_.train_data->describe(), 99);
    load_earlier_weights(find_earlier_weights(before_.options, context_).value(), *network,
                         context_);
    return weights(*network);
  }
  static bool are_equal(const NamedTensors& a, const NamedTensors& b) {
    return std::ranges::equal(
        a, b, [](const auto& x, const auto& y) { return x.second.equal(y.second); });
  }
  nlohmann::json record() const {
    std::ifstream file(context_.node().folder / "checkpoint.json");
    return nlohmann::json::parse(file);
  }

  TinyTraining before_;
  RecordingContext context_;
};
INSTANTIATE_TEST_SUITE_P(Result, EarlierAverage, testing::Bool());

TEST_P(EarlierAverage, BothKindsOfWeightsCanBeUsed) {
  TinyTraining without;
  without.options.keep = Keep::kLast;
  without.run();
  const NamedTensors trained = taken(false);
  EXPECT_TRUE(
      are_equal(trained, weights(*without.network)));  // averaging does not change the training
  EXPECT_EQ(record()["weights"], "trained");
  EXPECT_THAT(context_.said, ElementsAre(testing::StartsWith("the trained weights after step ")));
  const NamedTensors averaged = taken(true);
  EXPECT_FALSE(are_equal(averaged, trained));
  EXPECT_EQ(record()["weights"], "averaged");
  EXPECT_TRUE(are_equal(taken(std::nullopt), GetParam() ? averaged : trained));
}

TEST_F(EarlierWeightsTest, MissingAverageIsRejected) {
  context_.facts.trained->averaged = true;
  EXPECT_REFUSED(error(), kOptionConflict, "/ema", "no average");
  context_.facts.trained->averaged = false;
  EXPECT_NO_THROW(take());
  EXPECT_TRUE(has_the_trained_weights());
}

}  // namespace
}  // namespace stages
