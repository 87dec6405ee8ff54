#include "stages/train/earlier_weights.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/training_log.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;
using ChoiceOfCheckpoint = runner::CheckpointSource::Choice;

/// Returns the checkpoint that a training run selects according to `keep`.
std::optional<FoundCheckpoint> load_kept(const Checkpoints& checkpoints, Keep keep) {
  auto best = keep != Keep::kLast ? checkpoints.load_best(CheckpointPart::kShapes) : std::nullopt;
  return best ? std::move(best) : checkpoints.load_latest(CheckpointPart::kShapes);
}

std::optional<FoundCheckpoint> load(const runner::CheckpointSource& weights,
                                    const TrainerOptions& options) {
  const bool is_this = weights.choice == ChoiceOfCheckpoint::kThis;
  const Checkpoints checkpoints(
      is_this ? weights.folder.parent_path() : weights.folder,
      {options.checkpoint.keep_last, options.checkpoint.keep_best, options.higher_is_better});
  try {
    switch (weights.choice) {
      case ChoiceOfCheckpoint::kKept:
        return load_kept(checkpoints, options.keep);
      case ChoiceOfCheckpoint::kBest:
        return checkpoints.load_best(CheckpointPart::kShapes);
      case ChoiceOfCheckpoint::kLatest:
        return checkpoints.load_latest(CheckpointPart::kShapes);
      case ChoiceOfCheckpoint::kThis:
        return FoundCheckpoint{weights.folder,
                               read_checkpoint(weights.folder, CheckpointPart::kShapes)};
    }
  } catch (const StageError& error) {
    if (error.code != ErrorCode::kDamagedWeights) throw;
    throw StageError(error.code, error.what()).with_help(checkpoints.advice("--checkpoint "));
  }
  return std::nullopt;
}

/// Returns true for the average of the weights, false for the trained weights; nullopt if the run
/// kept no average.
std::optional<bool> takes_average(const runner::CheckpointSource& weights,
                                  const TrainerOptions& options) {
  if (options.average) return weights.averaged.value_or(options.average->is_result);
  if (!weights.averaged.value_or(false)) return std::nullopt;
  throw StageError(ErrorCode::kOptionConflict, "the run kept no average of its weights")
      .at("/ema")
      .with_help("leave out --weights averaged");
}

/// Reuses an earlier result only if it has the exact weights that training ended with; any other
/// weights would change the output.
std::optional<EarlierWeights> find_reused(const runner::CheckpointSource& weights,
                                          const TrainerOptions& options,
                                          runner::RunContext& context) {
  std::string why;
  try {
    if (auto found = load(weights, options)) {
      DatasetDescription data = described_data(found->state.about);
      return EarlierWeights{*std::move(found), std::move(data), ""};
    }
    why = "there is no checkpoint in '" + weights.folder.string() + "'";
  } catch (const std::exception& error) {
    why = error.what();
  }
  context.not_reused(why);
  return std::nullopt;
}

}  // namespace

void check_base(const torch::nn::Module& network, const TrainingState& state) {
  const auto saved = state.about.find("base");
  const std::string then = saved == state.about.end() ? "" : saved->second, now = base_of(network);
  if (then == now) return;
  const auto in_words = [](const std::string& base) {
    return base.empty() ? "none" : "'" + base + "'";
  };
  throw runner::StageError(runner::ErrorCode::kChangedRun,
                           "the checkpoint was trained with different frozen weights: " +
                               in_words(then) + " then, " + in_words(now) + " now")
      .with_help("use the model's earlier weights, or train again");
}

EarlierWeights read_earlier_weights(const runner::CheckpointSource& source,
                                    const TrainerOptions& options) {
  const std::optional<bool> averaged = takes_average(source, options);
  auto found = load(source, options);
  if (!found) {
    const bool unmeasured = source.choice == ChoiceOfCheckpoint::kBest;
    throw StageError(ErrorCode::kNoCheckpoint,
                     "there is no checkpoint in '" + source.folder.string() + "'" +
                         (unmeasured ? " that was measured on validation data" : ""))
        .with_help(unmeasured ? "use the newest: --checkpoint latest"
                              : "train the model first: `retort resume` continues the run");
  }
  try {
    DatasetDescription data = described_data(found->state.about);
    if (averaged && *averaged != options.average->is_result) {
      TrainingState whole = read_checkpoint(found->folder);
      take_other_weights(*options.average, whole.model, whole.optimizer);
      found->state.model = std::move(whole.model);
    }
    const char* const kind = !averaged ? "" : *averaged ? "averaged" : "trained";
    return EarlierWeights{*std::move(found), std::move(data), kind};
  } catch (const std::invalid_argument& error) {
    throw StageError(ErrorCode::kDamagedWeights,
                     "the checkpoint '" + found->folder.string() +
                         "' is not from this training run: " + error.what())
        .with_help("use a checkpoint trained with this version");
  } catch (const std::runtime_error& error) {
    throw StageError(ErrorCode::kDamagedWeights,
                     "the checkpoint '" + found->folder.string() +
                         "' does not record what data it was trained on: " + error.what())
        .with_help("use a checkpoint saved by this version of Retort");
  }
}

std::optional<EarlierWeights> find_earlier_weights(const TrainerOptions& options,
                                                   runner::RunContext& context) {
  const auto weights = context.node().trained;
  if (!weights) return std::nullopt;
  return weights->reused ? find_reused(*weights, options, context)
                         : read_earlier_weights(*weights, options);
}

bool is_reused_by_first(const std::optional<EarlierWeights>& trained,
                        const runner::RankOfRun& ranks) {
  constexpr const char* kReused = "reused";
  RankGroup* const group = group_of(ranks);
  return group ? group->text_of_first(trained ? kReused : "") == kReused : trained.has_value();
}

namespace {

[[noreturn]] void refuse_other_model(const std::filesystem::path& folder,
                                     const std::exception& error) {
  throw StageError(ErrorCode::kChangedRun,
                   "the checkpoint '" + folder.string() + "' does not match this model: " +
                       std::string(error.what(), std::strcspn(error.what(), "\n")))
      .with_help("evaluate the run without changing its model");
}

}  // namespace

void put_weights(const FoundCheckpoint& found, torch::nn::Module& network, at::Device device) {
  check_base(network, found.state);
  network.to(device);
  const NamedTensors own = weights(network), &saved = found.state.model;
  try {
    check_weights(own, saved);
    const bool is_outline = saved.size() > 0 && saved.begin()->second.is_meta();
    if (!is_outline) return set_weights(network, saved);
  } catch (const std::exception& error) {
    refuse_other_model(found.folder, error);
  }
  read_safetensors_into(own, found.folder / runner::kCheckpointModel);
}

void read_weights(const std::filesystem::path& folder, torch::nn::Module& network,
                  at::Device device) {
  put_weights({folder, read_checkpoint(folder, CheckpointPart::kShapes)}, network, device);
}

TrainingResult report_earlier_weights(const EarlierWeights& trained, runner::RunContext& context) {
  const FoundCheckpoint& found = trained.checkpoint;
  if (!context.node().folder.empty()) {
    nlohmann::ordered_json json = {{"checkpoint", found.folder.string()},
                                   {"epoch", found.state.epoch},
                                   {"step", found.state.step}};
    if (!trained.weights.empty()) json["weights"] = trained.weights;
    runner::write_atomically(
        context.node().folder / "checkpoint.json",
        json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  context.say("the " + trained.weights + (trained.weights.empty() ? "" : " ") +
              "weights after step " + std::to_string(found.state.step) + ", from '" +
              found.folder.string() + "'");
  return {found.state.epoch, found.state.step, found.folder / "model.safetensors",
          validation_scores(found.state.about)};
}

TrainingResult load_earlier_weights(const EarlierWeights& trained, torch::nn::Module& network,
                                    runner::RunContext& context) {
  put_weights(trained.checkpoint, network, at::Device(context.node().device));
  return report_earlier_weights(trained, context);
}

}  // namespace stages
