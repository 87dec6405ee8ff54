#include "stages/train/trained_weights.h"

#include <fstream>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "stages/checkpoint/checkpoint_folder.h"
#include "tests/support/tiny_training.h"
#include "tests/support/training_states.h"

namespace stages {
namespace {

using runner::ErrorCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Choice = runner::TrainedWeights::Choice;

/// A training that is done, and another run that takes its weights.
class TrainedWeights : public testing::Test {
 protected:
  TrainedWeights() {
    before_.options.checkpoint.keep_last = 3;
    before_.options.checkpoint.keep_best = 2;
    result_ = before_.run();
    context_.facts.trained = {folder(), Choice::kKept};
  }
  std::filesystem::path folder() const { return before_.context.node().folder / "checkpoints"; }

  /// Takes them over into a network of other weights.
  TrainingResult take(const std::shared_ptr<torch::nn::Module>& network) {
    const auto trained = find_trained(before_.options, context_);
    if (!trained) throw std::logic_error("still to be trained");
    return take_over(*trained, *network, context_);
  }
  TrainingResult take() {
    network_ = before_.step.model.build(before_.train_data->describe(), 99);
    return take(network_);
  }
  /// "E0808 message".
  std::string error() {
    try {
      take();
    } catch (const runner::StageError& error) {
      return runner::name(error.code) + " " + error.what();
    }
    return "taken";
  }
  static std::vector<at::Tensor> flat(const torch::nn::Module& network) {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : weights(network)) all.push_back(tensor.detach());
    return all;
  }
  bool has_the_trained_weights() const {
    const auto a = flat(*network_), b = flat(*before_.network);
    return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
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

TEST_F(TrainedWeights, NothingIsFoundWhereTheTrainingIsStillToBeDone) {
  context_.facts.trained.reset();
  EXPECT_FALSE(find_trained(before_.options, context_));
}

TEST_F(TrainedWeights, AreThoseThatTheTrainingEndedWith) {
  const TrainingResult taken = take();
  EXPECT_EQ(taken.step, result_.step);
  EXPECT_EQ(taken.epoch, result_.epoch);
  EXPECT_EQ(taken.file, result_.file);
  EXPECT_TRUE(has_the_trained_weights());
  EXPECT_THAT(context_.said, ElementsAre("the weights after step " + std::to_string(result_.step) + ", from '" +
                                         result_.file.parent_path().string() + "'"));
  EXPECT_TRUE(std::filesystem::exists(context_.node().folder / "checkpoint.json"));
}

TEST_F(TrainedWeights, KnowWhatDataTheyWereTrainedOn) {
  const auto trained = find_trained(before_.options, context_);
  EXPECT_EQ(trained->data.classes, before_.train_data->describe().classes);
  EXPECT_EQ(trained->data.tensors.at(0).shape, (std::vector<std::int64_t>{2}));
}

TEST_F(TrainedWeights, LatestAndACertainOneCanBeNamed) {
  context_.facts.trained->choice = Choice::kLatest;
  const TrainingResult latest = take();
  EXPECT_EQ(latest.step, 16);  // four epochs of four steps
  const auto first = folder() / to_text(runner::list_checkpoints(folder()).front());
  context_.facts.trained = {first, Choice::kThis};
  EXPECT_EQ(take().file, first / "model.safetensors");
}

TEST_F(TrainedWeights, DamagedBestOneFallsBackAndSaysSo) {
  damage(result_.file);
  const TrainingResult taken = take();
  EXPECT_NE(taken.step, result_.step);
  ASSERT_EQ(context_.said.size(), 2u);
  EXPECT_THAT(context_.said[0], testing::AllOf(HasSubstr("is damaged: model.safetensors is not what was written"),
                                               testing::EndsWith("; the next best checkpoint is used")));
}

TEST_F(TrainedWeights, OnesToBeReusedAreTakenWholeOrNotAtAll) {
  context_.facts.trained->reused = true;
  EXPECT_EQ(take().step, result_.step);
  EXPECT_TRUE(has_the_trained_weights());
  // Another checkpoint would do for an evaluation, but it is not what the training came to.
  damage(result_.file);
  EXPECT_FALSE(find_trained(before_.options, context_));
  EXPECT_THAT(context_.said, testing::Contains(HasSubstr("not reused: ")));
}

TEST_F(TrainedWeights, ReusedFolderWithoutACheckpointIsTrainedAgain) {
  std::filesystem::remove_all(folder());
  context_.facts.trained->reused = true;
  EXPECT_FALSE(find_trained(before_.options, context_));
  EXPECT_THAT(context_.said, testing::Contains(HasSubstr("not reused: there is no checkpoint in ")));
}

TEST_F(TrainedWeights, DamagedOneThatWasNamedIsAnError) {
  damage(result_.file);
  context_.facts.trained = {result_.file.parent_path(), Choice::kThis};
  EXPECT_THAT(error(), HasSubstr("E0620 the checkpoint '" + result_.file.parent_path().string() + "' is damaged"));
}

TEST_F(TrainedWeights, WithoutACheckpointThereIsAnError) {
  context_.facts.trained->folder = context_.node().folder / "none";
  EXPECT_EQ(error(), "E0808 there is no checkpoint in '" + (context_.node().folder / "none").string() + "'");
}

TEST_F(TrainedWeights, BestNeedsAMeasurement) {
  TinyTraining unmeasured;
  unmeasured.validation = nullptr;
  unmeasured.run();
  context_.facts.trained = {unmeasured.context.node().folder / "checkpoints", Choice::kBest};
  EXPECT_THAT(error(), testing::EndsWith("that was measured on validation data"));
  context_.facts.trained->choice = Choice::kKept;
  EXPECT_EQ(take().step, 16);
}

TEST_F(TrainedWeights, ThatDoNotSayWhatTheyWereTrainedOnAreRefused) {
  const auto folder = context_.node().folder / "step-00000005";
  std::filesystem::create_directories(folder);
  write_checkpoint(folder, training_state(5), runner::disk());
  context_.facts.trained = {folder, Choice::kThis};
  EXPECT_EQ(error(), "E0620 the checkpoint '" + folder.string() +
                         "' does not say what data it was trained on: its 'classes' is missing");
}

TEST_F(TrainedWeights, OfAnotherNetworkAreRefused) {
  const auto other = torch::nn::Sequential(torch::nn::Linear(2, 9), torch::nn::Tanh(), torch::nn::Linear(9, 3)).ptr();
  try {
    take(other);
    ADD_FAILURE();
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, ErrorCode::kChangedRun);
    EXPECT_THAT(error.what(), HasSubstr("does not fit this model: "));
  }
}

}  // namespace
}  // namespace stages
