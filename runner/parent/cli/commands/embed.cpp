#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/model_request.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/run/plan_request.h"
#include "runner/parent/run/prediction_output.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/finite_number.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

struct EmbedFlags {
  WeightsSource weights;
  std::string model;  ///< a CLIP model not trained by a run: a folder, or hf:ORG/NAME; empty: the
                      ///< run's model
  std::vector<std::string> paths;    ///< images and folders of images; may include overrides
  std::vector<std::string> queries;  ///< find the images most similar to these
  std::int64_t batch_size = 64, neighbors = 10;
  std::string similarity = "0.95";  ///< minimum cosine similarity of near-duplicates
  std::string out;
  bool skip_corrupt = false;  ///< continue after an image that cannot be read
  LogFlags log;
};

Diagnostic embed_misused(std::string message, std::string help) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

/// Returns the value of --similarity; nullopt if it is not between -1 and 1.
std::optional<double> similarity_of(const EmbedFlags& flags) {
  const auto value = finite_number(flags.similarity);
  return value && *value >= -1 && *value <= 1 ? value : std::nullopt;
}

/// Checks the flags and returns them, or errors. With --model, the first word is moved to the
/// paths, since it is not a run.
Result<EmbedFlags> checked_flags(EmbedFlags flags) {
  WeightsSource& source = flags.weights;
  const bool is_image = flags.paths.empty() && std::filesystem::is_regular_file(source.run);
  if (flags.model.empty() && (source.run.empty() || is_image)) {
    return embed_misused("no model given: neither a run nor --model",
                         "give the folder of a run, or a CLIP model: --model FOLDER");
  }
  if (!flags.model.empty()) {
    for (const auto& [flag, value] : {std::pair("--checkpoint", &source.checkpoint),
                                      {"--weights", &source.weights},
                                      {"--node", &source.node}}) {
      if (!value->empty())
        return embed_misused(std::string(flag) + " is for the model of a run, not for --model",
                             "leave it out");
    }
    if (!source.run.empty()) flags.paths.insert(flags.paths.begin(), std::exchange(source.run, ""));
  }
  if (!similarity_of(flags)) {
    return embed_misused("--similarity '" + flags.similarity + "' is not a number from -1 to 1",
                         "give a cosine similarity, such as 0.95");
  }
  if (flags.out.empty())
    return embed_misused("no folder given for the embeddings", "choose a new folder: --out DIR");
  return flags;
}

/// Prints the images closest to each query and the contents of the folder. Without queries, the
/// folder's contents are the result.
void print_embeddings(const Json& answer, const EmbedFlags& flags, Console& console) {
  const JsonFields<Json> fields(answer, "the embeddings");
  const std::string out = printable(flags.out);
  if (!fields.list("neighbors").empty()) {
    console.out << csv_line({"query", "rank", "file", "similarity"});
    for (const Json& asked : fields.list("neighbors")) {
      std::int64_t rank = 0;
      for (const Json& found : asked.at("nearest"))
        console.out << csv_line({printable(asked.at("query").get<std::string>()),
                                 std::to_string(++rank),
                                 printable(found.at("file").get<std::string>()),
                                 csv_number(found.at("similarity").get<double>())});
    }
  }
  if (console.is_quiet()) return;
  std::ostream& text = fields.list("neighbors").empty() ? console.out : console.err;
  text << counted(static_cast<std::size_t>(fields.count("images")), "image") << ", "
       << fields.integer("width") << " values each: " << out << "/embeddings.npy\n"
       << counted(static_cast<std::size_t>(fields.count("duplicates")), "near-duplicate pair")
       << ", similarity " << flags.similarity << " or more: " << out << "/duplicates.csv\n";
  for (const Json& outlier : fields.list("outliers")) {
    text << "least similar to its neighbors: " << printable(outlier.at("file").get<std::string>())
         << ", similarity " << std::fixed << std::setprecision(3)
         << outlier.at("similarity").get<double>() << std::defaultfloat << std::setprecision(6)
         << "; all images in order: " << out << "/outliers.csv\n";
    break;
  }
}

/// Sends the request to the worker and returns its answer. Unreadable images are reported as they
/// are found.
Result<Json> ask_for_embeddings(const WorkerCommand& worker, const Json& request, Console& console,
                                const Value& recipe, PredictionOutput& unreadable) {
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(recipe));
  Conversation conversation = shown_conversation(display, "embed");
  conversation.on_event = [&, show = conversation.on_event](const Event& event,
                                                            WorkerProcess& process) {
    show(event, process);
    const auto* item = std::get_if<Item>(&event);
    if (!item) return;
    display.clear();
    unreadable.take(item->json);
  };
  auto answer = ask_worker(worker, request, conversation);
  display.clear();
  return answer;
}

ExitCode embed_images(const EmbedFlags& given, Console& console) {
  const auto checked = checked_flags(given);
  if (!checked) return report(console, checked.errors());
  const EmbedFlags& flags = *checked;
  const ImageWords words = image_words(flags.paths);
  if (words.paths.empty() && std::ranges::all_of(words.overrides, is_of_machine))
    return report(console, {embed_misused("no image given", "give images or folders of images")});
  auto request = flags.model.empty()
                     ? weights_request("embed", flags.weights, words.overrides, console.sources)
                     : model_request("embed", flags.model, words.overrides, console.sources);
  if (!request) return report(console, request.errors());
  if (words.paths.empty())
    return report(console, {embed_misused("no image given", "give images or folders of images")});
  auto worker = worker_for(request->graph, request->recipe, shipped_schemas(), flags.log);
  if (!worker) return report(console, worker.errors());
  request->refresh_graph();
  const auto for_worker = [&](const std::vector<std::string>& paths) {
    std::vector<std::string> all;
    for (const std::string& path : paths) all.push_back(path_for(request->graph, path));
    return all;
  };
  request->json.update({{"paths", for_worker(words.paths)},
                        {"queries", for_worker(flags.queries)},
                        {"batch_size", flags.batch_size},
                        {"neighbors", flags.neighbors},
                        {"similarity", *similarity_of(flags)},
                        {"skip_corrupt", flags.skip_corrupt},
                        {"out", path_for(request->graph, flags.out)}});
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
  PredictionOutput unreadable(
      PredictionFormat::kCsv, [](std::string_view) {}, console.err, console.color);
  auto answer = ask_for_embeddings(*worker, request->json, console, request->recipe, unreadable);
  if (!answer) {
    Diagnostics errors = placed(answer.errors(), request->recipe);
    if (!flags.model.empty())
      for (Diagnostic& error : errors) error.pointer.clear();
    return report(console, errors);
  }
  if (console.json) print_result(console, "embed/1", *answer, unreadable.unreadable());
  else print_embeddings(*answer, flags, console);
  return unreadable.unreadable().empty() ? ExitCode::kDone : ExitCode::kBadData;
}

Invocation declare_embed() {
  const auto flags = std::make_shared<EmbedFlags>();
  Invocation verb;
  verb.is_single = true;
  add_weights_source(verb, flags->weights, /*is_required=*/false);
  verb.add({.name = "paths",
            .value = &flags->paths,
            .summary = "Images and folders of images; also device=… and threads=…"});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "The folder to create, which must not exist yet: embeddings.npy and "
                       "images.csv, duplicates.csv, outliers.csv and, with --query, neighbors.csv",
            .type = "DIR",
            .is_written = true});
  verb.add({.name = "--model",
            .value = &flags->model,
            .summary = "Use this CLIP model instead of a run: a folder saved by transformers, or "
                       "hf:ORG/NAME",
            .type = "MODEL"});
  verb.add({.name = "--query",
            .value = &flags->queries,
            .summary = "Find the images most similar to these images or folders of images",
            .type = "PATH",
            .once_each = true});
  verb.add({.name = "--neighbors",
            .value = &flags->neighbors,
            .summary = "Number of nearest images to find per query, and per image when looking for "
                       "near-duplicates and outliers",
            .type = "K",
            .range = {1, 10'000},
            .shows_default = true});
  verb.add({.name = "--similarity",
            .value = &flags->similarity,
            .summary = "The minimum cosine similarity of near-duplicates",
            .type = "COSINE",
            .shows_default = true});
  verb.add({.name = "--batch-size",
            .value = &flags->batch_size,
            .summary = "Images per batch",
            .type = "N",
            .range = {1, 1'000'000},
            .shows_default = true});
  add_weights_node(verb, flags->weights);
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.add({.name = "--skip-corrupt",
            .value = &flags->skip_corrupt,
            .summary = "Continue after an image that cannot be read; the exit code is still 65"});
  verb.run = [flags](Console& console) { return embed_images(*flags, console); };
  return verb;
}

}  // namespace

const Command kEmbedCommand = {
    "embed",
    "Writes the embeddings of images, and finds near-duplicates, outliers and similar images.",
    "retort embed outputs/2026-01-31/12-00-00 photos/ --out embedded --query cat.jpg",
    declare_embed};

}  // namespace runner
