#include "stages/worker/check_data.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/shared/stage/image_folder.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/image_names.h"
#include "runner/worker/create_stage.h"
#include "stages/data/image_survey.h"
#include "stages/stages.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::StageError;

constexpr std::size_t kMostListed = 100;
constexpr std::int64_t kMostBits = 64;

/// Discards a data stage's messages, since this check finds the same problems itself.
class CheckedContext final : public runner::RunContext {
 public:
  CheckedContext(runner::NodeFacts facts, const RequestContext& request)
      : RunContext(std::move(facts)), request_(request) {}
  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress& progress) override { request_.progress(progress); }
  void say(std::string_view) override {}
  bool canceled() const override { return request_.canceled(); }

 private:
  const RequestContext& request_;
};

void set(runner::Node& node, const char* key, const char* word) {
  if (runner::Value* const value = node.options.find(key)) value->data = std::string(word);
}

bool says(const runner::Node& node, const char* key, std::string_view word) {
  const runner::Value* const value = node.options.find(key);
  return value && value->text() && *value->text() == word;
}

using ImageParts = std::vector<std::shared_ptr<const ImageDataset>>;

ImageParts surveyed_images(const runner::Node& node, const runner::Graph& graph,
                           runner::Stage& stage, const RequestContext& context) {
  runner::NodeFacts facts{.seed = node.seed, .recipe_hash = graph.recipe_hash, .device = "cpu"};
  facts.wanted.emplace();  // missing parts appear in the result
  CheckedContext checked(std::move(facts), context);
  const runner::Outputs outputs = stage.run(runner::Inputs({}), checked);
  ImageParts parts;
  for (const char* const port : {"train", "validation", "test"}) {
    const auto found = outputs.find(port);
    if (found == outputs.end()) continue;
    if (auto pictures = std::dynamic_pointer_cast<const ImageDataset>(found->second))
      parts.push_back(pictures);
  }
  if (parts.empty())
    throw StageError(runner::ErrorCode::kUsage, "the samples of '" + node.id + "' are not images")
        .with_help("data check works on images only");
  return parts;
}

Json json_of(const runner::Diagnostic& problem) {
  return {{"code", runner::name(problem.code)},
          {"message", problem.message},
          {"help", problem.help},
          {"pointer", problem.pointer}};
}

Json json_of(const SurveyedImage& picture) {
  Json json = {{"file", picture.file}, {"part", name(picture.part)}, {"class", picture.label}};
  if (picture.label_set > 0) json["label_set"] = picture.label_set;
  return json;
}

/// Returns {"count", "shown"}: the length of the list and its first items.
template <typename List, typename Show>
Json counted_list(const List& list, const Show& show) {
  Json shown = Json::array();
  for (const auto& one : list) {
    if (shown.size() == kMostListed) break;
    shown.push_back(show(one));
  }
  return {{"count", list.size()}, {"shown", std::move(shown)}};
}

Json json_of(std::vector<ImageSurvey::Group> groups) {
  // Duplicates across parts matter most, so they come first.
  std::stable_partition(groups.begin(), groups.end(), is_across);
  Json json = counted_list(groups, [](const ImageSurvey::Group& group) {
    Json files = Json::array();
    for (std::size_t i = 0; i < std::min(group.size(), kMostListed); ++i)
      files.push_back(json_of(group[i]));
    return files;
  });
  json["across_parts"] = std::ranges::count_if(groups, is_across);
  json["several_classes"] = std::ranges::count_if(groups, [](const ImageSurvey::Group& group) {
    return std::ranges::any_of(group, [&](const auto& one) {
      return one.label != group.front().label || one.label_set != group.front().label_set;
    });
  });
  return json;
}

Json json_of(const ImageSurvey& survey, const runner::Node& node) {
  Json parts = Json::array();
  std::int64_t images = 0;
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const auto& counts = survey.counts[static_cast<std::size_t>(part)];
    if (counts.empty()) continue;
    const std::int64_t own = survey.images[static_cast<std::size_t>(part)];
    images += own;
    parts.push_back({{"part", name(part)}, {"images", own}, {"by_class", counts}});
  }
  return {{"node", node.id},
          {"pointer", node.pointer},
          {"images", images},
          {"bytes", survey.bytes},
          {"widths", survey.widths},
          {"heights", survey.heights},
          {"classes", survey.classes},
          {"parts", std::move(parts)},
          {"unreadable", counted_list(survey.unreadable,
                                      [](const ImageSurvey::Unreadable& one) {
                                        Json json = json_of(one.picture);
                                        json["why"] = one.why;
                                        return json;
                                      })},
          {"identical", json_of(survey.identical)},
          {"alike", json_of(survey.alike)},
          {"patients", survey.patients},
          {"without_patient", survey.without_patient},
          {"shared_patients",
           counted_list(survey.shared, [](const std::string& patient) { return patient; })},
          {"subject", survey.subject ? survey.subject->what : ""},
          {"strangers",
           counted_list(survey.unlike, [](const auto& picture) { return json_of(picture); })},
          {"reduced",
           counted_list(survey.reduced, [](const auto& picture) { return json_of(picture); })}};
}

/// The images of a data stage, and all problems with them. Training would stop at the first
/// problem.
struct FoundImages {
  ImageParts parts;
  bool is_divided = true;  ///< false if parts and classes are unknown, so the images are all
                           ///< those below the root
  runner::Diagnostics problems;
};

/// Returns all images below the node's root as one part with one class; empty if there is no such
/// folder. Adds a problem for images in unsupported formats, unless they are to be skipped.
ImageParts images_below_root(const runner::Node& node, runner::Diagnostics& problems) {
  const runner::Value* const value = node.options.find("root");
  std::error_code error;
  if (!value || !value->text() || !std::filesystem::is_directory(*value->text(), error)) return {};
  auto list =
      std::make_shared<ImageList>(ImageList{.root = *value->text(), .classes = {"of all classes"}});
  runner::NotTaken not_taken;
  for (std::filesystem::recursive_directory_iterator at(list->root, error), end;
       !error && at != end; at.increment(error)) {
    std::error_code unknown;
    const std::string name = at->path().filename().string();
    if (at->is_directory(unknown)) {
      if (name.starts_with('.')) at.disable_recursion_pending();
    } else if (runner::is_image_name(name)) {
      (*list)[Part::kTrain].push_back({at->path().lexically_relative(list->root).string(), 0});
    } else {
      not_taken.file(name);
    }
  }
  if (not_taken.count_other_images() > 0 && !says(node, "on_corrupt", "skip"))
    problems.push_back(runner::other_images_error(list->root, not_taken));
  auto& files = (*list)[Part::kTrain];
  if (files.empty()) return {};
  std::ranges::sort(files, {}, &ImageFile::name);
  return {std::make_shared<const ImageDataset>(std::move(list), Part::kTrain, ImageDatasetOptions{},
                                               0, nullptr)};
}

/// True if folder names determine the part and class of the node's images.
bool is_of_folders(const runner::Node& node) {
  return node.kind == "data.image_folder" ||
         (node.kind == "data.fundus" && says(node, "layout", "class_folders"));
}

/// Returns the folders below the root that contain images, directly or in subfolders, but no image
/// that belongs to a part. Returns only the outermost folders, each with its number of images.
std::map<std::string, std::int64_t> folders_not_taken(const ImageParts& parts) {
  const std::filesystem::path root = parts.front()->root();
  std::set<std::string> taken;  // folders with an image in a part, and their parent folders
  const auto take = [&](const std::string& file) {
    std::filesystem::path folder = std::filesystem::path(file).parent_path();
    while (taken.insert(folder.string()).second && !folder.empty()) folder = folder.parent_path();
  };
  for (const auto& part : parts) {
    for (const ImageFile& file : part->files()) {
      take(file.name);
      for (const std::string& copy : file.copies) take(copy);
    }
  }
  std::map<std::string, std::int64_t> folders;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code unknown;
    const std::string name = at->path().filename().string();
    if (at->is_directory(unknown) && name.starts_with('.')) at.disable_recursion_pending();
    if (!at->is_regular_file(unknown) || !runner::is_image_name(name)) continue;
    std::filesystem::path outermost = at->path().lexically_relative(root).parent_path();
    if (taken.contains(outermost.string())) continue;
    while (!taken.contains(outermost.parent_path().string())) outermost = outermost.parent_path();
    ++folders[outermost.string()];
  }
  return folders;
}

/// Finds all problems with the list of images, and the images themselves if possible.
FoundImages find_images(runner::Node node, const runner::Graph& graph,
                        const RequestContext& context) {
  FoundImages found;
  set(node, "duplicates",
      "keep");  // this check looks for copies in two parts, so these must not stop it
  const auto attempt = [&](const runner::Node& tried) {
    const auto stage = runner::create_stage(tried, all_kinds());
    if (!stage) return stage.errors();
    try {
      found.parts = surveyed_images(tried, graph, **stage, context);
      return runner::Diagnostics{};
    } catch (const StageError& error) {
      const std::string& place = error.stage.empty() ? node.pointer : error.stage;
      return runner::Diagnostics{{error.code, {}, place + error.option, error.what(), error.help}};
    }
  };
  found.problems = attempt(node);
  if (found.problems.empty()) return found;
  runner::Node skipping = node;  // unsupported images must not hide the others
  set(skipping, "on_corrupt", "skip");
  if (attempt(skipping).empty()) return found;
  found.is_divided = false;
  runner::Diagnostics others;
  found.parts = images_below_root(node, others);
  for (runner::Diagnostic& problem : others) {
    problem.pointer = node.pointer + "/root";
    const auto is_reported = [&](const runner::Diagnostic& one) {
      return one.code == problem.code;
    };
    if (std::ranges::none_of(found.problems, is_reported))
      found.problems.push_back(std::move(problem));
  }
  return found;
}

}  // namespace

runner::Result<Json> answer_check_data(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(request, {"graph", "distance"});
  runner::Graph graph = runner::graph_from_json(fields.object("graph"));
  SurveyOptions options;
  options.most_bits =
      static_cast<int>(std::clamp<std::int64_t>(fields.integer("distance"), 0, kMostBits));
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  options.canceled = context.canceled;
  options.progress = [&](std::int64_t done, std::int64_t all) {
    runner::Progress progress;
    progress.phase = "check";
    progress.step = done;
    progress.steps = all;
    context.progress(progress);
  };
  Json data = Json::array();
  runner::Diagnostics failures;  // problems with nodes that have no images
  for (const runner::Node& node : graph.nodes) {
    const FoundImages found = find_images(node, graph, context);
    if (found.parts.empty()) {
      failures.insert(failures.end(), found.problems.begin(), found.problems.end());
      continue;
    }
    data.push_back(json_of(survey_images(found.parts, options), node));
    data.back()["divided"] = found.is_divided;
    if (found.is_divided && is_of_folders(node)) {
      data.back()["not_taken"] =
          counted_list(folders_not_taken(found.parts), [](const auto& folder) {
            return Json{{"folder", folder.first}, {"images", folder.second}};
          });
    }
    data.back()["problems"] = Json::array();
    for (const runner::Diagnostic& problem : found.problems)
      data.back()["problems"].push_back(json_of(problem));
  }
  if (data.empty()) return failures;
  for (const runner::Diagnostic& failure : failures)
    data.back()["problems"].push_back(json_of(failure));
  return Json{{"data", std::move(data)}};
}

}  // namespace stages
