#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/adapters/run_divisions.h"
#include "stages/adapters/soup.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictor.h"
#include "stages/numerics/running_statistics.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/given_weights.h"
#include "stages/train/single_checkpoint.h"
#include "stages/train/training_ranks.h"
#include "stages/weights/tensor_digest.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;
namespace fs = std::filesystem;

enum class SoupMethod { kGreedy, kUniform, kInterpolation };

struct SoupOptions {
  std::vector<std::string> runs;
  SoupMethod method = SoupMethod::kGreedy;
  std::vector<double> alphas;
  bool is_by_loss = false;  // true: choose by validation loss; false: by accuracy
  Predictor::Options predictor;
};

/// Throws if averages of the network's weights would not be valid weights for it.
void check_averages(const torch::nn::Module& network) {
  const auto refuse = [](const std::string& what, const std::string& help) {
    throw StageError(ErrorCode::kOptionConflict, "train.soup cannot average this model: " + what)
        .with_help(help);
  };
  const RunningStatistics statistics = running_statistics_of(network);
  if (statistics.are_collected || statistics.has_unknown_layers)
    refuse("averaged weights need new running statistics for its BatchNorm layers",
           "average the epochs of one training run instead: train.average_best or train.swa "
           "recomputes these statistics");
  for (const auto& [name, weight] : trained_parameters(network))
    if (name.find(".lora_") != name.npos)
      refuse("averaging low-rank factors does not average their products",
             "use model.full or model.linear_probe");
}

/// Throws if `given` was trained on classes or pixels that differ from those of `data`.
void check_same_data(const GivenWeights& given, const DatasetDescription& data) {
  if (given.about.empty()) return;
  const DatasetDescription then = described_data(given.about);
  const auto refuse = [](const std::string& what, const std::string& help) {
    throw StageError(ErrorCode::kOptionConflict, what).with_help(help);
  };
  constexpr std::size_t kShownClasses = 5;
  if (then.classes != data.classes)
    refuse(
        "it was trained on different classes: " + runner::listed(then.classes, kShownClasses, "'") +
            " there, " + runner::listed(data.classes, kShownClasses, "'") + " here",
        "use that run's data");
  if (then.ordinal != OrdinalHead::kNone)
    refuse("its head is for ordered classes (" + std::string(name_of(then.ordinal)) +
               "), which train.soup does not average",
           "average the epochs of one training run with train.average_best");
  if (then.transform != data.transform)
    refuse("its images were preprocessed differently: " + then.transform + " there, " +
               data.transform + " here",
           "set the data options to the values used in that run");
}

class SoupStage final : public runner::Stage {
 public:
  explicit SoupStage(SoupOptions options) : options_(std::move(options)) {}

  std::string fingerprint() const override {
    std::string all;
    for (const std::string& run : options_.runs) all += runner::digest_below(run);
    return all;
  }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const auto trained = find_earlier_weights(options_of_single(), context);
    const std::shared_ptr<Checkpoint> checkpoint = single_checkpoint(inputs, trained);
    const DatasetDescription data = trained ? trained->data : images_of(inputs);
    checkpoint->network = checkpoint->model->outline(data);
    if (trained) return runner::Outputs{{"checkpoint", checkpoint}};
    check_averages(*checkpoint->network);
    for (std::size_t i = 0; i < options_.runs.size(); ++i)
      read(i, weights(*checkpoint->network), *checkpoint->network, data, context);
    PlannedForward planned = predictor(inputs, checkpoint).planned(context);
    if (planned_backend(context).device == at::kCPU) {
      std::int64_t bytes = 0;
      for (const auto& [name, weight] : weights(*checkpoint->network))
        bytes += static_cast<std::int64_t>(weight.nbytes());
      constexpr std::int64_t kCopies =
          4;  // the initial or averaged weights, the next weights, their mean, and a set just read
      add_term(planned.plan, {"weights to average", kCopies * bytes, "read from the runs"});
    }
    options_.predictor.batch_size = planned.batch_size;
    context.plan(std::move(planned.plan));
    return runner::Outputs{{"checkpoint", checkpoint}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const auto trained = find_earlier_weights(options_of_single(), context);
    const std::shared_ptr<Checkpoint> checkpoint = single_checkpoint(inputs, trained);
    const bool is_reused = is_reused_by_first(trained, context.node().ranks);
    if (trained) reuse_single(*trained, *checkpoint, context);
    else if (is_reused) checkpoint->network = checkpoint->model->outline(images_of(inputs));
    else make_soup(inputs, checkpoint, context);
    checkpoint->network->eval();
    return {{"checkpoint", checkpoint}};
  }

 private:
  static DatasetDescription images_of(const runner::Inputs& inputs) {
    return source_of(inputs.get<Dataset>("train")->describe());
  }

  /// The ranks of `group`, which may be null, divide the validation data.
  Predictor predictor(const runner::Inputs& inputs,
                      const std::shared_ptr<const Checkpoint>& checkpoint,
                      RankGroup* group = nullptr) const {
    Predictor::Options options = options_.predictor;
    options.group = group;
    return Predictor(inputs.get<Dataset>("validation"), checkpoint,
                     inputs.get<MemoryPolicy>("memory"), std::move(options));
  }

  void make_soup(const runner::Inputs& inputs, const std::shared_ptr<Checkpoint>& checkpoint,
                 runner::RunContext& context) const {
    RankGroup* const group = group_of(context.node().ranks);
    const bool is_first = context.node().ranks.rank == 0;  // only rank 0 records and saves
    if (is_first) begin_single(context);
    const DatasetDescription data = images_of(inputs);
    checkpoint->network = checkpoint->model->build(data, context.node().seed);
    torch::nn::Module& network = *checkpoint->network;
    check_averages(network);
    for (const std::string& line : checkpoint->model->notes(network))
      if (is_first) context.say(line);
    NamedTensors initial;
    for (const auto& [name, weight] : weights(network)) initial.set(name, weight.detach().clone());
    network.to(at::Device(context.node().device));
    network.eval();
    compare_data(group, *inputs.get<Dataset>("train"), inputs.get<Dataset>("validation").get());
    check_runs(initial, network, data, context);

    const Predictor measuring = predictor(inputs, checkpoint, group);
    const ScopedMemoryBudget budget = measuring.hold_budget(context);
    std::int64_t count = 0;
    const Ingredients from{
        .count = options_.runs.size(),
        .read = [&](std::size_t i) { return read(i, initial, network, data, context); },
        .measure =
            [&](const NamedTensors& values, Measured& measured) {
              ++count;
              begin_part("measurement " + std::to_string(count), context);
              set_weights(network, values);
              const ClassifiedSamples samples = measuring.classify(context);
              const ClassificationMetrics metrics =
                  classification_metrics(samples.logits, samples.labels, {1});
              measured.accuracy = metrics.top1;
              measured.loss = metrics.log_loss;
              if (is_first) record(measured, count, context);
            },
        .is_better =
            [&](const Measured& a, const Measured& b) {
              return options_.is_by_loss ? a.loss < b.loss : a.accuracy > b.accuracy;
            }};
    const Soup soup = made(initial, from);
    if (!is_first) return;
    set_weights(network, soup.weights);
    finish(soup, *checkpoint, data, context);
  }

  /// Throws if the weights of a run cannot be averaged, or if another rank has read different
  /// weights.
  void check_runs(const NamedTensors& initial, torch::nn::Module& network,
                  const DatasetDescription& data, runner::RunContext& context) const {
    RankGroup* const group = group_of(context.node().ranks);
    for (std::size_t i = 0; i < options_.runs.size(); ++i) {
      const NamedTensors given = read(i, initial, network, data, context);
      if (group) group->require_same("'" + options_.runs[i] + "'", tensor_digest(given));
    }
  }

  Soup made(const NamedTensors& initial, const Ingredients& from) const {
    switch (options_.method) {
      case SoupMethod::kGreedy:
        return greedy_soup(from);
      case SoupMethod::kUniform:
        return uniform_soup(from);
      case SoupMethod::kInterpolation:
        return best_interpolation(initial, options_.alphas, from);
    }
    return {};
  }

  /// Reads the weights of a run, after checking that they can be averaged with the others.
  NamedTensors read(std::size_t index, const NamedTensors& initial, torch::nn::Module& network,
                    const DatasetDescription& data, runner::RunContext& context) const {
    if (context.canceled()) throw runner::Canceled{};
    const fs::path path = options_.runs[index];
    try {
      GivenWeights given = read_given_weights(path, "runs");
      check_same_data(given, data);
      check_given_base(network, given);
      complete(network, given, path, context);
      refuse_misfits(initial, given.weights, path);
      const auto run = runner::run_of(runner::RunLayout(fs::absolute(path)).nodes());
      if (run && !context.node().folder.empty())
        check_divided_alike(context.node().folder.parent_path(), runner::RunLayout(*run).nodes());
      return std::move(given.weights);
    } catch (const StageError& error) {
      const std::string message = error.what();
      const bool names_it = message.find("'" + path.string()) != message.npos;
      throw StageError(
          error.code, names_it ? message : "'" + path.string() + "' cannot be averaged: " + message)
          .at("/runs/" + std::to_string(index))
          .with_help(error.help);
    }
  }

  /// Throws if a head was trained on different frozen weights.
  static void check_given_base(const torch::nn::Module& network, const GivenWeights& given) {
    TrainingState state;
    state.about = given.about;
    if (!base_of(network).empty() && !given.about.empty()) check_base(network, state);
  }

  std::string named(const Measured& measured) const {
    char number[32];
    std::snprintf(number, sizeof number, "%.4g", measured.alpha);
    if (options_.method == SoupMethod::kInterpolation) return std::string("alpha ") + number;
    std::vector<std::string> runs;
    for (const std::size_t i : measured.members) runs.push_back("'" + options_.runs[i] + "'");
    return runner::join(runs, " + ");
  }

  void record(const Measured& measured, std::int64_t step, runner::RunContext& context) const {
    context.metric("soup/accuracy", measured.accuracy, step);
    context.metric("soup/loss", measured.loss, step);
    if (options_.method == SoupMethod::kInterpolation)
      context.metric("soup/alpha", measured.alpha, step);
    context.say(named(measured) + ": " + results(measured));
  }

  static std::string results(const Measured& measured) {
    char text[96];
    std::snprintf(text, sizeof text, "validation accuracy %.2f%%, loss %.4g",
                  100 * measured.accuracy, measured.loss);
    return text;
  }

  void finish(const Soup& soup, Checkpoint& checkpoint, const DatasetDescription& data,
              runner::RunContext& context) const {
    const Measured& chosen = soup.measured[soup.chosen];
    context.say("kept: " + named(chosen) + ", " + results(chosen));
    context.metric("validation/accuracy", chosen.accuracy, 1);
    context.metric("validation/loss", chosen.loss, 1);
    checkpoint.validation = {{"accuracy", chosen.accuracy}, {"loss", chosen.loss}};
    if (!context.node().folder.empty())
      runner::write_atomically(context.node().folder / "soup.json", to_json(soup).dump(2) + "\n");
    save_single(checkpoint, data, context);
  }

  nlohmann::ordered_json to_json(const Soup& soup) const {
    nlohmann::ordered_json measured = nlohmann::ordered_json::array();
    for (const Measured& one : soup.measured) {
      nlohmann::ordered_json json = {{"runs", nlohmann::ordered_json::array()}};
      for (const std::size_t i : one.members) json["runs"].push_back(options_.runs[i]);
      if (options_.method == SoupMethod::kInterpolation) json["alpha"] = one.alpha;
      json["accuracy"] = one.accuracy;
      json["loss"] = one.loss;
      measured.push_back(std::move(json));
    }
    return {{"chosen", measured.at(soup.chosen)}, {"measured", measured}};
  }

  SoupOptions options_;  // plan() reduces the batch size to what fits in memory
};

runner::Result<std::unique_ptr<runner::Stage>> create_soup(runner::ConfigReader& reader) {
  SoupOptions options;
  reader.read("runs", options.runs);
  options.method = runner::choice<SoupMethod>(reader, "method",
                                              {{"greedy", SoupMethod::kGreedy},
                                               {"uniform", SoupMethod::kUniform},
                                               {"interpolation", SoupMethod::kInterpolation}});
  reader.read("alphas", options.alphas);
  options.is_by_loss =
      runner::choice<bool>(reader, "monitor", {{"accuracy", false}, {"loss", true}});
  reader.read("batch_size", options.predictor.batch_size);
  options.predictor.pointer = reader.pointer();
  if (options.method == SoupMethod::kInterpolation && options.runs.size() != 1)
    reader.fail("runs", ErrorCode::kOptionConflict,
                "method: interpolation takes one run, but runs lists " +
                    std::to_string(options.runs.size()),
                "specify one run, or set method: greedy");
  if (auto errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<SoupStage>(std::move(options)));
}

}  // namespace

extern const runner::StageKind kTrainSoup = {.name = "train.soup", .create = create_soup};

}  // namespace stages
