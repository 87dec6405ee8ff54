#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/cuda.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/artifact/division.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/targets.h"
#include "stages/data/image_folds.h"
#include "stages/data/image_list.h"
#include "stages/data/image_split.h"
#include "stages/data/image_stage.h"
#include "stages/python/python_dataset.h"
#include "stages/python/python_host.h"
#include "stages/python/reader_pool.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr std::array kPythonParts = {Part::kTrain, Part::kValidation, Part::kTest};

struct PythonDataConfig {
  PythonDataOptions options;
  Json arguments = Json::object();
  std::string in_words;  // a description of the entry and arguments, without secrets
  std::array<std::optional<Json>, kSplitParts> parts;  // additional arguments for each part
  std::optional<SplitOptions> split;
  std::optional<FoldOptions> folds;        // for the training and validation samples of `split`
  std::optional<std::int64_t> split_seed;  // nullopt: the run's seed
};

/// The dataset that a part comes from, and the indices of its samples; nullopt: all samples.
struct PartOfData {
  std::size_t set = 0;
  std::optional<std::vector<std::int64_t>> numbers;
};
using MadeParts = std::map<Part, PartOfData>;

Json json_at(runner::ConfigReader& reader, std::string_view key) {
  const runner::Value* const value = reader.raw(key);
  return value ? Json(runner::to_json(*value, /*hide_secrets=*/false)) : Json();
}

std::string share_text(const SplitOptions& shares) {
  const auto text = [](double number) { return Json(number).dump(); };
  return text(shares.train) + ", " + text(shares.validation) + ", " + text(shares.test);
}

std::string fold_text(const FoldOptions& folds) {
  return "fold " + std::to_string(folds.index) + " of " + std::to_string(folds.count);
}

std::string spec_text(const TensorSpec& spec) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : spec.shape) sizes.push_back(std::to_string(size));
  return spec.name + " " + std::string(c10::getDtypeNames(spec.dtype).first) + " (" +
         runner::join(sizes, ", ") + ")";
}

class PythonDataStage final : public runner::Stage {
 public:
  explicit PythonDataStage(PythonDataConfig config) : config_(std::move(config)) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    PythonDataOptions options = config_.options;
    if (options.loader.pinned &&
        !(context.node().device.starts_with("cuda") && torch::cuda::is_available())) {
      context.say("loader.pinned has no effect: nothing is copied to a GPU");
      options.loader.pinned = false;
    }
    const Json host = call_python({{"do", "reader"}});
    const auto pool = std::make_shared<ReaderPool>(
        std::move(options), ReaderProgram{host.at("interpreter"), host.at("script")},
        host.at("allowed"), context.node().seed);
    MadeParts parts = made_parts(*pool, context);
    if (config_.split) divide(parts, *pool, context);
    check_labels(parts, *pool);
    record(parts, *pool, context);
    report(parts, *pool, context);
    return outputs_of(parts, pool);
  }

  /// Returns a random fingerprint: without reading all samples, there is no way to know that two
  /// runs have the same data.
  std::string fingerprint() const override {
    std::random_device device;
    return std::to_string(device()) + std::to_string(device());
  }

 private:
  Json arguments_of(Part part) const {
    Json all = config_.arguments;
    if (const auto& more = config_.parts[static_cast<std::size_t>(part)]) all.update(*more);
    return all;
  }

  MadeParts made_parts(ReaderPool& pool, runner::RunContext& context) const {
    MadeParts parts;
    std::set<std::size_t> opened;
    for (const Part part : kPythonParts) {
      const std::string word(name(part));
      const bool is_named = config_.parts[static_cast<std::size_t>(part)].has_value();
      if (!context.node().wants(word) || (!config_.split && !is_named)) continue;
      parts[part].set = pool.open(arguments_of(part), config_.split ? "" : word);
      if (!opened.insert(parts[part].set).second) continue;
      const auto& known = pool.known(parts[part].set);
      if (known.description.size == 0) {
        throw error(ErrorCode::kTooFewSamples, "the dataset has no samples")
            .with_help("its __len__ returns 0: correct the code that creates it");
      }
      if (!known.is_steady) {
        context.say(
            "warning: sample 0 differs when it is read again with the same seeds: the dataset "
            "uses its own random number generator, so the run cannot be repeated bit for bit");
      }
    }
    return parts;
  }

  /// Divides the dataset, by class if the labels of its samples are known.
  void divide(MadeParts& parts, const ReaderPool& pool, runner::RunContext& context) const {
    if (parts.empty()) return;
    const ReaderPool::Known& first = pool.known(parts.begin()->second.set);
    for (const auto& [part, made] : parts) {
      const std::int64_t size = pool.known(made.set).description.size;
      if (size == first.description.size && pool.known(made.set).labels == first.labels &&
          pool.known(made.set).groups == first.groups)
        continue;
      throw error(ErrorCode::kOptionConflict, "split divides a single dataset, but the one for '" +
                                                  std::string(name(part)) +
                                                  "' has different samples, labels or groups")
          .at("/split")
          .with_help("set split: null if each part has its own dataset");
    }
    ImageList list;
    list.classes = first.description.classes;
    list.has_targets = first.labels.empty();  // without labels, all samples count as one class
    for (std::int64_t i = 0; i < first.description.size; ++i) {
      const std::int64_t label =
          first.labels.empty() ? 0 : first.labels[static_cast<std::size_t>(i)];
      list[Part::kTrain].push_back({.name = std::to_string(i), .label = label});
      if (!first.groups.empty())
        list[Part::kTrain].back().patient = first.groups[static_cast<std::size_t>(i)];
      while (std::ssize(list.classes) <= label)
        list.classes.push_back("class " + std::to_string(list.classes.size()));
    }
    split(list, *config_.split, split_seed(context));
    if (config_.folds) {
      auto &train = list[Part::kTrain], &validation = list[Part::kValidation];
      std::ranges::move(validation, std::back_inserter(train));
      validation.clear();
      std::ranges::sort(train, {}, [](const ImageFile& one) { return std::stoll(one.name); });
      take_fold(list, *config_.folds, split_seed(context));
      context.say("the validation samples are " + fold_text(*config_.folds) + ", counting from 0");
    }
    if (first.labels.empty() && !first.description.classes.empty())
      context.say(
          "divided without regard to classes: the dataset has no 'targets' or 'labels' with the "
          "label of each sample");
    for (auto& [part, made] : parts) {
      made.numbers.emplace();
      for (const ImageFile& sample : list[part]) made.numbers->push_back(std::stoll(sample.name));
    }
  }

  std::uint64_t split_seed(const runner::RunContext& context) const {
    return config_.split_seed ? static_cast<std::uint64_t>(*config_.split_seed)
                              : context.node().seed;
  }

  /// Throws if a dataset with classes has no labels.
  void check_labels(const MadeParts& parts, const ReaderPool& pool) const {
    for (const auto& [part, made] : parts) {
      const DatasetDescription& description = pool.known(made.set).description;
      const auto label = std::ranges::find(description.tensors, "label", &TensorSpec::name);
      if (description.classes.empty() || label != description.tensors.end() ||
          has_label_sets(description) || has_targets(description))
        continue;
      throw error(ErrorCode::kOptionConflict,
                  "the dataset has classes, but its samples have no 'label'")
          .with_help(
              "return each sample's class number as 'label' or, if a sample can have any number of "
              "classes, 'labels' with 1 or 0 for each class; to predict numbers, return 'target' "
              "with a number for each name in 'classes'");
    }
  }

  Division division_of(const MadeParts& parts, const ReaderPool& pool,
                       const runner::RunContext& context) const {
    Division division;
    division.drawn_by = config_.in_words;
    if (config_.split)
      division.drawn_by += "; shares " + share_text(*config_.split) + " with seed " +
                           std::to_string(split_seed(context));
    if (config_.folds) division.drawn_by += "; " + fold_text(*config_.folds);
    if (config_.options.group) division.drawn_by += "; group '" + *config_.options.group + "'";
    for (const auto& [part, made] : parts) {
      const DatasetDescription& description = pool.known(made.set).description;
      const std::string word(name(part));
      division.classes[word] = description.classes;
      auto& samples = division.parts[word];
      const std::int64_t size = made.numbers ? std::ssize(*made.numbers) : description.size;
      for (std::int64_t i = 0; i < size; ++i)
        samples.push_back(
            {std::to_string(made.numbers ? (*made.numbers)[static_cast<std::size_t>(i)] : i), 0});
    }
    return division;
  }

  /// Records the division. Throws if any part differs from that of the earlier run that this run
  /// resumes, repeats or evaluates.
  void record(const MadeParts& parts, const ReaderPool& pool, runner::RunContext& context) const {
    const Division now = division_of(parts, pool, context);
    context.divided([now] { return to_gzip(now); });
    if (context.node().earlier.empty()) return;
    const std::filesystem::path file = runner::NodeLayout(context.node().earlier).division();
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return;
    const Division earlier = read_division(file);
    if (earlier.drawn_by != now.drawn_by) return;
    for (const auto& [part, samples] : now.parts) {
      const auto before = earlier.parts.find(part);
      const auto classes = earlier.classes.find(part);
      if (before == earlier.parts.end() || classes == earlier.classes.end()) continue;
      if (before->second == samples && classes->second == now.classes.at(part)) continue;
      const std::string message =
          "the dataset has changed since the run began: '" + part + "' had " +
          std::to_string(before->second.size()) + " samples of " +
          std::to_string(classes->second.size()) + " classes, and now has " +
          std::to_string(samples.size()) + " of " + std::to_string(now.classes.at(part).size()) +
          (before->second.size() == samples.size() ? ", but not the same ones" : "");
      if (!context.node().accepts_changes)
        throw error(ErrorCode::kChangedRun, message)
            .with_help("restore the dataset, or add --force to use the changed one");
      context.say(message);
    }
  }

  void report(const MadeParts& parts, const ReaderPool& pool, runner::RunContext& context) const {
    if (parts.empty()) return;
    const DatasetDescription& description = pool.known(parts.begin()->second.set).description;
    std::vector<std::string> counts, tensors;
    for (const auto& [part, made] : parts) {
      const std::int64_t size =
          made.numbers ? std::ssize(*made.numbers) : pool.known(made.set).description.size;
      counts.push_back(std::to_string(size) + " for " +
                       (part == Part::kTrain ? "training" : std::string(name(part))));
    }
    for (const TensorSpec& spec : description.tensors) tensors.push_back(spec_text(spec));
    context.say((description.classes.empty()
                     ? "no classes"
                     : std::to_string(description.classes.size()) + " classes") +
                "; samples: " + runner::join(counts, ", ") + "; each sample has " +
                runner::join(tensors, ", "));
  }

  runner::Outputs outputs_of(const MadeParts& parts,
                             const std::shared_ptr<ReaderPool>& pool) const {
    runner::Outputs outputs;
    for (const auto& [part, made] : parts) {
      const bool is_empty = made.numbers && made.numbers->empty();
      if (part == Part::kValidation && is_empty) continue;
      outputs[std::string(name(part))] =
          std::make_shared<const PythonDataset>(pool, made.set, made.numbers);
    }
    // A stage that needs a missing part reports this itself.
    if (parts.empty()) return outputs;
    for (const Part part : {Part::kTrain, Part::kTest})
      if (!parts.contains(part))
        outputs[std::string(name(part))] = std::make_shared<const PythonDataset>(
            pool, parts.begin()->second.set, std::vector<std::int64_t>());
    return outputs;
  }

  StageError error(ErrorCode code, const std::string& message) const {
    return StageError(code, message).at("/entry");
  }

  const PythonDataConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_python_data(runner::ConfigReader& reader) {
  PythonDataConfig config;
  PythonDataOptions& options = config.options;
  options.stage = reader.pointer();
  reader.read("entry", options.entry);
  config.arguments = json_at(reader, "arguments");
  config.in_words = options.entry;
  for (const char* key : {"arguments", "parts"})
    if (const runner::Value* const value = reader.raw(key))
      config.in_words += " " + runner::to_json(*value, /*hide_secrets=*/true).dump();
  if (runner::ConfigReader* const parts = section_or_null(reader, "parts")) {
    for (const Part part : kPythonParts) {
      Json arguments = json_at(*parts, name(part));
      if (!arguments.is_null()) config.parts[static_cast<std::size_t>(part)] = std::move(arguments);
    }
  }
  if (runner::ConfigReader* const shares = section_or_null(reader, "split")) {
    SplitOptions& split = config.split.emplace();
    shares->read("train", split.train);
    shares->read("validation", split.validation);
    shares->read("test", split.test);
    shares->read("seed", config.split_seed);
  }
  config.folds = read_folds(reader);
  reader.read("tensors", options.tensors);
  reader.read("classes", options.classes);
  reader.read("group", options.group);
  reader.read("augmented", options.is_augmented);
  options.skips_corrupt =
      runner::choice<bool>(reader, "on_corrupt", {{"stop", false}, {"skip", true}});
  runner::ConfigReader& loader = reader.section("loader");
  loader.read("workers", options.loader.workers);
  loader.read("prefetch", options.loader.prefetch);
  loader.read("pinned", options.loader.pinned);
  loader.read("drop_last", options.loader.drop_last);
  std::optional<std::int64_t> seconds;
  loader.read("timeout", seconds);
  if (seconds) options.limit = std::chrono::seconds(*seconds);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<PythonDataStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kDataPython = {"data.python", create_python_data};

}  // namespace stages
