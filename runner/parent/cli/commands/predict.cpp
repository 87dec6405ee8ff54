#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/command_line.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/model_request.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/sweep_check.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/record/input_record.h"
#include "runner/parent/run/plan_request.h"
#include "runner/parent/run/prediction_output.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kTopClasses = 5;

struct PredictFlags {
  WeightsSource weights;
  std::string model;  ///< a CLIP model not trained by a run: a folder, or hf:ORG/NAME; empty: the
                      ///< run's model
  std::vector<std::string> paths;  ///< images and folders of images; may include overrides
  std::int64_t top = kTopClasses, batch_size = 64;
  std::string out;            ///< the file for the predictions; empty: standard output
  std::string flip = "none";  ///< mirrored copies to average over
  std::string support;        ///< examples of each class, for a few-shot model; empty: none
  std::vector<std::string>
      labels;           ///< captions to compare images with; empty: the classes seen in training
  std::string explain;  ///< a folder for images that explain the predictions; empty: none
  bool skip_corrupt = false;  ///< continue after an image that cannot be read
  bool force = false;         ///< use examples even if the data has changed since training
  LogFlags log;
};

Diagnostic predict_misused(std::string message, std::string help) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

/// Checks the flags and returns them, or errors. With --model, the first word is moved to the
/// paths, since it is not a run.
Result<PredictFlags> checked_flags(PredictFlags flags) {
  WeightsSource& source = flags.weights;
  if (flags.model.empty()) {
    const bool is_image = flags.paths.empty() && std::filesystem::is_regular_file(source.run);
    if (!source.run.empty() && !is_image) return flags;
    return predict_misused(
        "no model given: neither a run nor --model",
        "give the folder of a run, or a CLIP model: --model FOLDER --labels TEXT…");
  }
  if (!source.run.empty() && read_run(source.run)) {
    return predict_misused(
        "both a run, '" + source.run + "', and --model '" + flags.model + "' are given",
        "leave one of them out: each specifies the model to predict with");
  }
  for (const auto& [flag, value] : {std::pair("--checkpoint", &source.checkpoint),
                                    {"--weights", &source.weights},
                                    {"--node", &source.node},
                                    {"--support", &flags.support}}) {
    if (!value->empty())
      return predict_misused(std::string(flag) + " is for the model of a run, not for --model",
                             "leave it out");
  }
  if (flags.labels.empty()) {
    return predict_misused("--model needs --labels, since such a model has no fixed classes",
                           "give the texts to choose from: --labels \"a red car\" \"a blue car\"");
  }
  if (!source.run.empty()) flags.paths.insert(flags.paths.begin(), std::exchange(source.run, ""));
  return flags;
}

/// Returns the request to the worker, without the images.
Result<WeightsRequest> prediction_request(const PredictFlags& flags,
                                          const std::vector<std::string>& overrides,
                                          Sources& sources) {
  return flags.model.empty() ? weights_request("predict", flags.weights, overrides, sources)
                             : model_request("predict", flags.model, overrides, sources);
}

/// Returns the errors with their locations in the run's recipe, or without locations for --model,
/// which has no recipe.
Diagnostics placed_for(const PredictFlags& flags, Diagnostics errors, const Value& recipe) {
  if (flags.model.empty()) return placed(std::move(errors), recipe);
  for (Diagnostic& error : errors) error.pointer.clear();
  return errors;
}

/// Thrown if standard output can no longer be written to; the reason is reported when the program
/// exits.
struct OutputClosed : std::exception {};

/// Sends `request` to the worker and writes the predictions as they arrive.
Result<Json> ask(const WorkerCommand& worker, const Json& request, const PredictFlags& flags,
                 Console& console, PredictionOutput& output, const Value& recipe) {
  // Otherwise, results and a live line on the same terminal would overwrite each other.
  const bool shows_progress = !flags.out.empty() || !isatty(STDOUT_FILENO);
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(recipe));
  std::optional<std::string> nonsense;
  Conversation conversation = shown_conversation(display, "predict");
  conversation.on_event = [&, show = conversation.on_event](const Event& event,
                                                            WorkerProcess& process) {
    if (shows_progress || !std::holds_alternative<NodeProgress>(event)) show(event, process);
    const auto* item = std::get_if<Item>(&event);
    if (!item || nonsense) return;
    if (item->json.contains("code")) display.clear();
    try {
      output.take(item->json);
    } catch (const WriteError&) {
      throw;
    } catch (const std::runtime_error& error) {
      nonsense = error.what();
      process.signal(SIGKILL);
    }
  };
  auto answer = ask_worker(worker, request, conversation);
  display.clear();
  if (nonsense)
    return Diagnostic{
        ErrorCode::kProtocol, {}, "", "the worker sent " + *nonsense, "this is a bug in Retort"};
  return answer;
}

/// Writes the predictions either to `flags.out`, completely or not at all, or to standard output.
ExitCode predict(const WorkerCommand& worker, const Json& request, const PredictFlags& flags,
                 Console& console, const Value& recipe) {
  std::optional<AtomicFile> file;
  if (!flags.out.empty()) file.emplace(flags.out);
  const auto append = [&](std::string_view text) {
    if (file) return file->append(text);
    if (!(console.out << text << std::flush)) throw OutputClosed();
  };
  show_notice(recipe, console);
  PredictionOutput output(console.json ? PredictionFormat::kJsonLines
                          : file       ? PredictionFormat::kCsv
                                       : PredictionFormat::kShownCsv,
                          append, console.err, console.color);
  const auto answer = ask(worker, request, flags, console, output, recipe);
  if (!answer) return report(console, placed_for(flags, answer.errors(), recipe));
  if (file) file->commit();
  if (!console.is_quiet() && file)
    console.err << output.images() << " images: " << printable(flags.out) << '\n';
  const auto failed = static_cast<std::int64_t>(output.unreadable().size());
  if (!console.is_quiet() && failed > 0)
    console.err << failed << " of " << output.images() + failed << " images could not be read\n";
  if (console.json) {
    Json result = {{"images", output.images()},
                   {"unreadable", failed},
                   {"file", file ? Json(flags.out) : Json()}};
    if (const std::string notice = notice_of(recipe); !notice.empty()) result["notice"] = notice;
    for (const char* key : {"weights", "pictures", "temperature"}) {
      if (answer->contains(key)) result[key] = (*answer)[key];
    }
    print_result(console, "predict/1", result, output.unreadable());
  }
  return failed > 0 ? ExitCode::kBadData : ExitCode::kDone;
}

/// Returns an error for each option that ensembles do not support, if the request is for an
/// ensemble.
Diagnostics of_no_ensemble(const Json& request) {
  Diagnostics errors;
  for (const char* flag : {"support", "labels"}) {
    if (request["request"] != "predict_ensemble" || !request.contains(flag)) continue;
    errors.push_back({ErrorCode::kUsage,
                      {},
                      "",
                      "--" + std::string(flag) + " does not work with an ensemble of networks",
                      "leave it out, or choose one of the training nodes: --node NODE"});
  }
  return errors;
}

/// Returns an error for --top if the request is for a model that predicts values.
Diagnostics of_no_classes(const PredictFlags& flags, const WeightsRequest& request) {
  const auto id = request.json.find("node");
  if (flags.top == kTopClasses || id == request.json.end()) return {};
  const auto node = std::ranges::find(request.graph.nodes, id->get<std::string>(), &Node::id);
  if (node == request.graph.nodes.end() || node->kind != "train.regression") return {};
  return {
      predict_misused("--top selects classes, but this model predicts numbers", "leave --top out")};
}

/// True if `path` is below `folder` after links are resolved.
bool lies_really_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code error;
  const auto below = std::filesystem::weakly_canonical(path, error)
                         .lexically_relative(std::filesystem::weakly_canonical(folder, error));
  return !below.empty() && *below.begin() != "..";
}

/// Returns an error or, with --force, a warning if the examples given by --support are part of the
/// training data and have changed since training.
Diagnostics changed_support(const PredictFlags& flags, Console& console) {
  if (flags.support.empty()) return {};
  const auto run = read_run(flags.weights.run);
  if (!run) return {};
  const SchemaSet& schemas = shipped_schemas();
  const auto prepared = prepare_recorded(run->recipe, {}, schemas, console.sources);
  if (!prepared) return {};
  const Value& recipe = prepared->recipe.resolved;
  Json now = Json::object();
  for (const auto& [pointer, path] : input_paths(recipe, schemas, prepared->graph.working_folder))
    if (lies_really_in(flags.support, path)) now[pointer] = look_at_input(path).record;
  if (now.empty()) return {};
  const Json environment = {{"inputs", std::move(now)}};
  auto changes = changes_since_record(*run, environment, prepared->graph, recipe, recipe);
  std::erase_if(changes, [&](const RecordChange& change) {
    return !environment["inputs"].contains(change.pointer);
  });
  return reported_changes(changes, *run, environment, flags.force);
}

ExitCode predict_images(const PredictFlags& given, Console& console) {
  console.json_lines = true;
  const auto checked = checked_flags(given);
  if (!checked) return report(console, checked.errors());
  const PredictFlags& flags = *checked;
  const ImageWords words = image_words(flags.paths);
  const Diagnostics no_image = {
      {ErrorCode::kUsage, {}, "", "no image given", "give images or folders of images"}};
  if (words.paths.empty() && std::ranges::all_of(words.overrides, is_of_machine))
    return report(console, no_image);
  auto request = prediction_request(flags, words.overrides, console.sources);
  if (!request) return report(console, request.errors());
  if (words.paths.empty())
    return report(console, no_image);  // reported after errors in overrides, which may be mistyped
                                       // image paths
  if (auto errors = of_no_classes(flags, *request); !errors.empty()) return report(console, errors);
  const Diagnostics changed = changed_support(flags, console);
  if (exit_code(changed) != ExitCode::kDone) return report(console, changed);
  warn(console, changed);
  auto worker = worker_for(request->graph, request->recipe, shipped_schemas(), flags.log);
  if (!worker) return report(console, worker.errors());
  request->refresh_graph();
  std::vector<std::string> paths;
  for (const std::string& path : words.paths) paths.push_back(path_for(request->graph, path));
  request->json.update({{"paths", paths},
                        {"top", flags.top},
                        {"batch_size", flags.batch_size},
                        {"flip", flags.flip},
                        {"skip_corrupt", flags.skip_corrupt}});
  if (!flags.support.empty()) request->json["support"] = path_for(request->graph, flags.support);
  if (!flags.labels.empty()) request->json["labels"] = flags.labels;
  if (!flags.explain.empty()) request->json["explain"] = path_for(request->graph, flags.explain);
  if (auto errors = of_no_ensemble(request->json); !errors.empty()) return report(console, errors);
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(request->recipe));
  const auto device =
      take_own_device({.recipe = request->recipe,
                       .graph = request->graph,
                       .worker = *worker,
                       .run = request->run ? &*request->run : nullptr,
                       .need = needed_by_prediction(*worker, request->json, display)},
                      console);
  if (!device) return report(console, device.errors());
  request->refresh_graph();
  try {
    return predict(*worker, request->json, flags, console, request->recipe);
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  } catch (const OutputClosed&) {
    return ExitCode::kCannotWrite;
  }
}

Invocation declare_predict() {
  const auto flags = std::make_shared<PredictFlags>();
  Invocation verb;
  verb.is_single = true;
  verb.json_summary =
      "JSON lines: one object per image as soon as its prediction is ready, then a final line with "
      "the errors";
  add_weights_source(verb, flags->weights, /*is_required=*/false);
  verb.add({.name = "paths",
            .value = &flags->paths,
            .summary = "Images and folders of images; also device=… and threads=…"});
  verb.add({.name = "--model",
            .value = &flags->model,
            .summary = "Use this CLIP model instead of a run: a folder saved by transformers, or "
                       "hf:ORG/NAME; needs --labels",
            .type = "MODEL"});
  verb.add({.name = "--top",
            .value = &flags->top,
            .summary = "Number of classes to print per image, most likely first",
            .type = "K",
            .range = {1, 1'000'000},
            .shows_default = true});
  verb.add({.name = "--batch-size",
            .value = &flags->batch_size,
            .summary = "Images per batch",
            .type = "N",
            .range = {1, 1'000'000},
            .shows_default = true});
  verb.add({.name = "--flip",
            .value = &flags->flip,
            .summary = "Average the predictions for each image and its mirror images",
            .type = "HOW",
            .choices = {"none", "horizontal", "vertical", "both"},
            .shows_default = true});
  verb.add(
      {.name = "--support",
       .value = &flags->support,
       .summary =
           "For a few-shot model: a folder with one subfolder per class, each with a few images",
       .type = "DIR"});
  verb.add({.name = "--force",
            .value = &flags->force,
            .summary = "With --support: continue even if those images belong to training data that "
                       "has changed since training"});
  verb.add({.name = "--labels",
            .value = &flags->labels,
            .summary = "For a CLIP model: texts such as \"a red car\"; the text closest to an "
                       "image is its class",
            .type = "TEXT"});
  verb.add({.name = "--explain",
            .value = &flags->explain,
            .summary = "For a convolutional network, or a vision transformer in Python: draw a "
                       "heat map of where it looked (Grad-CAM) "
                       "over each image at its own size, at most 2048 pixels on a side, and save "
                       "the result in this folder; what the network did not see is dimmed",
            .type = "DIR",
            .is_written = true});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "Write the predictions to this file, once all images are done, instead of "
                       "standard output",
            .type = "FILE",
            .is_written = true});
  add_weights_node(verb, flags->weights);
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.add({.name = "--skip-corrupt",
            .value = &flags->skip_corrupt,
            .summary = "Continue after an image that cannot be read; the exit code is still 65"});
  verb.run = [flags](Console& console) { return predict_images(*flags, console); };
  return verb;
}

}  // namespace

const Command kPredictCommand = {
    "predict", "Predicts the classes of images with a run's trained network.",
    "retort predict outputs/2026-01-31/12-00-00 holiday/ cat.jpg --top 3", declare_predict};

}  // namespace runner
