#include "stages/train/training_checkpoints.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include <ATen/Parallel.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/artifact/dataset.h"
#include "stages/machine/device.h"
#include "stages/plan/recovery.h"
#include "stages/random/generator_state.h"
#include "stages/ranks/rank_group.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/earlier_weights.h"
#include "stages/train/training_log.h"
#include "stages/weights/interpolated_weights.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

/// Returns the metadata of a checkpoint's weights.
std::map<std::string, std::string> about(const DatasetDescription& data, std::int64_t epoch,
                                         std::int64_t step) {
  DatasetDescription saved = source_of(data);
  saved.targets = data.targets;
  saved.ordinal = data.ordinal;
  std::map<std::string, std::string> texts = describe_data(saved);
  texts["format"] = "pt";
  texts["epoch"] = std::to_string(epoch);
  texts["step"] = std::to_string(step);
  return texts;
}

/// Returns the folder of rank 0, which saves for all ranks.
const std::filesystem::path& folder_of(const runner::NodeFacts& node) {
  return node.ranks.rank == 0 ? node.folder : node.ranks.first_folder;
}

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(TrainingParts parts, const DatasetDescription& data,
                                         const TrainerOptions& options, runner::RunContext& context)
    : parts_(parts),
      data_(data),
      options_(options),
      context_(context),
      checkpoints_(runner::NodeLayout(folder_of(context.node())).checkpoints(),
                   {options.checkpoint.keep_last, options.checkpoint.keep_best,
                    options.higher_is_better, options.average_best}),
      clock_(options.checkpoint.every, steady_seconds()) {}

bool TrainingCheckpoints::is_due(const TrainingPosition& position) const {
  return clock_.is_due(position.steps, steady_seconds());
}

bool TrainingCheckpoints::is_due_after_epoch(const TrainingPosition& position) const {
  return clock_.is_due_after_epoch(position.epochs);
}

void TrainingCheckpoints::save(const TrainingPosition& position, std::optional<double> metric,
                               const std::optional<Means>& validation) {
  parts_.steps.flush(0);
  if (metric && !std::isfinite(*metric)) metric.reset();
  if (saved_ == position) return;
  saved_validation_ = validation ? validation_text(*validation) : "";
  if (context_.node().ranks.rank == 0) save_for_all(position, metric);
  else if (is_state_divided()) send_part();
  saved_ = position;
  clock_.saved(position.steps, steady_seconds());
}

void TrainingCheckpoints::save_for_all(const TrainingPosition& position,
                                       const std::optional<double>& metric) {
  const std::int64_t metrics = context_.sync_metrics();
  const auto save_now = [&] {
    saved_folder_ = checkpoints_.save(state(position, metric, metrics),
                                      [this](const auto& item) { return brought(item); });
  };
  if (is_state_divided()) save_now();  // no retry: other ranks send their parts only once
  else retry("saving a checkpoint", save_now);
}

/// Returns the state to save; the parts kept by other ranks are on the Meta device.
NamedTensors TrainingCheckpoints::optimizer_state() const {
  NamedTensors state = parts_.execution.optimizer().state();
  for (const auto& [name, outline] : parts_.execution.optimizer().state_elsewhere())
    state.set(name, outline);
  return state;
}

/// On rank 0, returns a weight or a tensor of the state with its values, which come from the rank
/// that keeps it.
at::Tensor TrainingCheckpoints::brought(const NamedTensors::Item& item) const {
  const runner::RankOfRun& ranks = context_.node().ranks;
  const std::optional<int> owner = parts_.execution.owner_of_weight(item.first);
  const int keeper =
      owner ? *owner : parts_.execution.optimizer().keeper_of(item.first).value_or(0);
  if (ranks.rank == 0 && keeper == 0) return bring_here(item);
  RankGroup* const group = group_of(ranks);
  if (ranks.rank == 0) {
    at::Tensor received = torch::empty(item.second.sizes(), item.second.scalar_type());
    group->receive(received, keeper);
    return received;
  }
  if (keeper == ranks.rank) group->send(bring_here(item), 0);
  return {};
}

/// Sends this rank's part of the weights and the state, in the order in which rank 0 writes them.
void TrainingCheckpoints::send_part() const {
  NamedTensors model = weights(network()), state = optimizer_state();
  if (const WeightAverage* average = parts_.execution.average()) average->save(model, state);
  for (const NamedTensors& tensors : {model, state}) {
    put_safetensors(
        tensors, {}, [](std::string_view) {}, [this](const auto& item) { return brought(item); });
  }
}

TrainingState TrainingCheckpoints::state(const TrainingPosition& position,
                                         const std::optional<double>& metric,
                                         std::int64_t metrics) const {
  TrainingState state;
  state.model = weights(network());
  state.optimizer = optimizer_state();
  if (const WeightAverage* average = parts_.execution.average())
    average->save(state.model, state.optimizer);
  state.step = position.steps;
  state.epoch = position.epochs;
  state.batch = position.batches;
  state.metrics = metrics;
  state.seed = context_.node().seed;
  state.threads = at::get_num_threads();
  state.recipe_hash = context_.node().recipe_hash;
  state.metric = metric;
  state.about = about(data_, parts_.steps.epoch().last.epoch, position.steps);
  if (!saved_validation_.empty()) state.about["validation"] = saved_validation_;
  if (const std::string base = base_of(network()); !base.empty()) state.about["base"] = base;
  if (const GradScaler* scaler = parts_.execution.scaler()) {
    const NamedTensors scaling = scaler->state();
    state.scaler = {{"scale", scaling.at("scale").item<double>()},
                    {"growth_tracker", scaling.at("growth_tracker").item<std::int64_t>()},
                    {"skipped_in_a_row", parts_.steps.skipped_in_a_row()}};
  }
  state.random = generator_state(parts_.execution.network().device());
  state.schedule = parts_.learning_rates.state();
  state.stopping = parts_.stopping.state();
  state.plan = parts_.recovery.state();
  state.epoch_so_far = to_json(parts_.steps.epoch());
  return state;
}

/// Returns the checkpoint names of the weights without memory on this rank, and of their averages.
std::set<std::string> TrainingCheckpoints::weights_elsewhere() const {
  std::set<std::string> names;
  for (const auto& [name, weight] : weights(network())) {
    if (has_memory(weight)) continue;
    for (const char* const ending : {"", ".average", ".trained"}) names.insert(name + ending);
  }
  return names;
}

std::optional<TrainingPosition> TrainingCheckpoints::resume(std::int64_t epochs) {
  RankGroup* const group = group_of(context_.node().ranks);
  const bool is_first = context_.node().ranks.rank == 0;
  if (group && !is_first)
    group->wait_for_all();  // waits until rank 0 has moved damaged
                            // checkpoints away
  Continuation continuation;
  const std::set<std::string> elsewhere = weights_elsewhere();
  const auto contents_of = [&](const std::string& name) {
    const int own = context_.node().ranks.rank;
    const bool is_elsewhere =
        elsewhere.contains(name) ||
        (is_state_divided() && parts_.execution.optimizer().keeper_of(name).value_or(own) != own);
    return is_elsewhere ? WeightContents::kShapes : WeightContents::kNumbers;
  };
  retry("loading a checkpoint", [&] { continuation = checkpoints_.load_to_continue(contents_of); });
  if (group && is_first) group->wait_for_all();
  const auto& [found, damaged] = continuation;
  for (const std::string& line : damaged)
    context_.say(line + (found ? "; an earlier checkpoint is used"
                               : "; training starts from the beginning"));
  if (!found) return {};  // nothing was saved before the stop, or all checkpoints are lost
  try {
    saved_ = restore(found->state);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw runner::StageError(runner::ErrorCode::kChangedRun,
                             "the checkpoint '" + found->folder.string() +
                                 "' does not match this training run: " +
                                 std::string(error.what(), std::strcspn(error.what(), "\n")))
        .with_help("resume the run without the change, or start a new one");
  }
  if (saved_->epochs > epochs) {
    throw runner::StageError(runner::ErrorCode::kChangedRun,
                             std::to_string(saved_->epochs) + " epochs are done, but 'epochs' is " +
                                 std::to_string(epochs) + ": finished epochs cannot be undone")
        .at("/epochs")
        .with_help("set epochs to " + std::to_string(saved_->epochs) +
                   " or more, or start a new run");
  }
  saved_folder_ = found->folder;
  const bool goes_on = saved_->epochs < options_.epochs;
  if (goes_on && context_.node().ranks.rank == 0) checkpoints_.remove_average();
  const auto validation = found->state.about.find("validation");
  saved_validation_ = validation == found->state.about.end() ? "" : validation->second;
  clock_.saved(saved_->steps, steady_seconds());
  context_.resumed(found->state.metrics, saved_->steps);
  return saved_;
}

TrainingPosition TrainingCheckpoints::restore(const TrainingState& state) {
  check_base(network(), state);
  NamedTensors model = state.model, optimizer = state.optimizer;
  if (WeightAverage* average = parts_.execution.average()) average->load(model, optimizer);
  if (options_.swa)
    check_averaged(*options_.swa, parts_.execution.average()->epochs(), state.epoch, state.batch);
  set_weights(network(), model);
  parts_.execution.optimizer().load_state(optimizer);
  std::int64_t skipped_in_a_row = 0;
  if (GradScaler* scaler = parts_.execution.scaler(); scaler && !state.scaler.is_null()) {
    scaler->load_state(
        {{"scale", torch::tensor(state.scaler.at("scale").get<float>())},
         {"growth_tracker",
          torch::tensor(state.scaler.at("growth_tracker").get<std::int32_t>(), torch::kInt)}});
    skipped_in_a_row = state.scaler.at("skipped_in_a_row");
  }
  parts_.recovery.restore(state.plan);
  parts_.learning_rates.load_state(state.schedule);
  set_generator_state(state.random, parts_.execution.network().device());
  parts_.stopping.load_state(state.stopping);
  parts_.steps.restore(epoch_so_far_from_json(state.epoch_so_far), skipped_in_a_row);
  return {state.step, state.epoch, state.batch};
}

void TrainingCheckpoints::retry(const std::string& what, const std::function<void()>& work) {
  do_with_retry(parts_.recovery.policy(), network_device(), what, context_, work);
}

TrainingCheckpoints::BestEpochs TrainingCheckpoints::load_average() {
  BestEpochs best;
  NamedTensors mean;
  if (RankGroup* const group = group_of(context_.node().ranks))
    group->wait_for_all();  // waits until rank 0 has saved
  const std::vector<std::filesystem::path> folders = checkpoints_.best(options_.average_best);
  if (folders.size() < 2) return best;
  const auto include = [&](const std::filesystem::path& folder) {
    TrainingState state = read_checkpoint(folder, CheckpointPart::kWeights);
    if (best.epochs.empty()) best.metric = state.metric.value();
    best.epochs.push_back(state.epoch);
    mean =
        best.epochs.size() == 1
            ? std::move(state.model)
            : interpolated_weights(mean, state.model, 1 / static_cast<double>(best.epochs.size()));
  };
  try {
    for (const std::filesystem::path& folder : folders)
      retry("averaging the best checkpoints", [&] { include(folder); });
  } catch (const runner::StageError& error) {
    throw runner::StageError(error.code, error.what()).with_help(checkpoints_.advice(""));
  }
  has_other_weights_ = true;
  set_weights(network(), mean);
  return best;
}

void TrainingCheckpoints::keep_better(const TrainingPosition& position, const BestEpochs& averaged,
                                      double metric, const Means& validation) {
  const bool is_better =
      std::isfinite(metric) &&
      (options_.higher_is_better ? metric > averaged.metric : metric < averaged.metric);
  std::vector<std::string> epochs;
  for (const std::int64_t epoch : averaged.epochs) epochs.push_back(std::to_string(epoch));
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, " %.4g, and the best epoch %.4g: ", metric,
                averaged.metric);
  context_.say("the average of epochs " + runner::join(epochs, ", ") + " has a validation " +
               options_.monitor + " of" + numbers +
               (is_better ? "the average is kept" : "the best epoch is kept"));
  if (is_better) save_average(position, averaged, metric, validation);
}

void TrainingCheckpoints::save_average(const TrainingPosition& position, const BestEpochs& averaged,
                                       double metric, const Means& validation) {
  if (context_.node().ranks.rank != 0) return;
  TrainingState saved;
  saved.model = weights(network());
  saved.step = position.steps;
  saved.epoch = position.epochs;
  saved.metrics = context_.sync_metrics();
  saved.seed = context_.node().seed;
  saved.threads = at::get_num_threads();
  saved.recipe_hash = context_.node().recipe_hash;
  saved.metric = metric;
  saved.about = about(data_, position.epochs, position.steps);
  saved.about["validation"] = validation_text(validation);
  saved.about["averaged_epochs"] = nlohmann::json(averaged.epochs).dump();
  if (const std::string base = base_of(network()); !base.empty()) saved.about["base"] = base;
  saved.random = generator_state(parts_.execution.network().device());
  retry("saving the average", [&] { checkpoints_.save_average(saved); });
}

TrainingResult TrainingCheckpoints::keep(const TrainingPosition& position) {
  TrainingResult result{parts_.steps.epoch().last.epoch, position.steps, saved_folder_,
                        validation_scores({{"validation", saved_validation_}})};
  WeightAverage* const average = parts_.execution.average();
  const bool averages = average && average->is_result();
  if (RankGroup* const group = group_of(context_.node().ranks))
    group->wait_for_all();  // waits until rank 0 has saved
  const bool is_divided = parts_.execution.plan().shards_parameters();
  std::optional<FoundCheckpoint> best;
  bool has_best_to_load = false;
  try {
    if (options_.keep != Keep::kLast)
      retry("loading the best checkpoint", [&] {
        best =
            checkpoints_.load_best(is_divided ? CheckpointPart::kShapes : CheckpointPart::kWeights);
      });
  } catch (const runner::StageError& error) {
    throw runner::StageError(error.code, error.what()).with_help(checkpoints_.advice(""));
  }
  // Without validation, the last weights count as the best.
  if (best) {
    result = {best->state.epoch, best->state.step, best->folder,
              validation_scores(best->state.about)};
    has_best_to_load = averages || has_other_weights_ || best->state.step != position.steps;
  } else if (averages && !is_divided) {
    average->swap();
  }
  if (has_best_to_load && !is_divided) set_weights(network(), best->state.model);
  result.file /= "model.safetensors";
  return result;
}

}  // namespace stages
