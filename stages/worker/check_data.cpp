#include "stages/worker/check_data.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/execute/executor.h"
#include "runner/graph/graph.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/data/picture_survey.h"
#include "stages/stages.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::StageError;

constexpr std::size_t kMostListed = 100;
constexpr std::int64_t kMostBits = 64;

/// A data stage that says nothing: what it has to say is found again here.
class CheckedContext final : public runner::RunContext {
 public:
  CheckedContext(runner::NodeFacts facts, const RequestContext& request)
      : RunContext(std::move(facts)), request_(request) {}
  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress& progress) override { request_.progress(progress); }
  void say(std::string_view) override {}
  bool cancelled() const override { return request_.cancelled(); }

 private:
  const RequestContext& request_;
};

/// Copies in two parts are what is looked for: they are not to stop it.
void keep_copies(runner::Node& node) {
  if (runner::Value* const duplicates = node.options.find("duplicates")) duplicates->data = std::string("keep");
}

std::vector<std::shared_ptr<const ImageDataset>> pictures_of(const runner::Node& node, const runner::Graph& graph,
                                                             runner::Stage& stage, const RequestContext& context) {
  runner::NodeFacts facts{.seed = node.seed, .recipe_hash = graph.recipe_hash, .device = "cpu"};
  facts.wanted.emplace();  // a part that is not there is seen in what is shown
  CheckedContext checked(std::move(facts), context);
  const runner::Outputs outputs = stage.run(runner::Inputs({}), checked);
  std::vector<std::shared_ptr<const ImageDataset>> parts;
  for (const char* const port : {"train", "validation", "test"}) {
    const auto found = outputs.find(port);
    if (found == outputs.end()) continue;
    if (auto pictures = std::dynamic_pointer_cast<const ImageDataset>(found->second)) parts.push_back(pictures);
  }
  if (parts.empty())
    throw StageError(runner::ErrorCode::kUsage, "the samples of '" + node.id + "' are no pictures")
        .with_help("data check looks at data of pictures alone");
  return parts;
}

Json json_of(const SurveyedPicture& picture) {
  return {{"file", picture.file}, {"part", name(picture.part)}, {"class", picture.label}};
}

/// {"count", "shown"}.
template <typename List, typename Show>
Json counted_list(const List& list, const Show& show) {
  Json shown = Json::array();
  for (const auto& one : list) {
    if (shown.size() == kMostListed) break;
    shown.push_back(show(one));
  }
  return {{"count", list.size()}, {"shown", std::move(shown)}};
}

Json json_of(std::vector<PictureSurvey::Group> groups) {
  // Those across parts are what matters.
  std::stable_partition(groups.begin(), groups.end(), is_across);
  Json json = counted_list(groups, [](const PictureSurvey::Group& group) {
    Json files = Json::array();
    for (std::size_t i = 0; i < std::min(group.size(), kMostListed); ++i) files.push_back(json_of(group[i]));
    return files;
  });
  json["across_parts"] = std::ranges::count_if(groups, is_across);
  json["several_classes"] = std::ranges::count_if(groups, [](const PictureSurvey::Group& group) {
    return std::ranges::any_of(group, [&](const auto& one) { return one.label != group.front().label; });
  });
  return json;
}

Json json_of(const PictureSurvey& survey, const runner::Node& node) {
  Json parts = Json::array();
  std::int64_t images = 0;
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
    const auto& counts = survey.counts[static_cast<std::size_t>(part)];
    if (counts.empty()) continue;
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum += count;
    images += sum;
    parts.push_back({{"part", name(part)}, {"images", sum}, {"by_class", counts}});
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
                                      [](const PictureSurvey::Unreadable& one) {
                                        Json json = json_of(one.picture);
                                        json["why"] = one.why;
                                        return json;
                                      })},
          {"identical", json_of(survey.identical)},
          {"alike", json_of(survey.alike)},
          {"patients", survey.patients},
          {"without_patient", survey.without_patient},
          {"shared_patients", counted_list(survey.shared, [](const std::string& patient) { return patient; })},
          {"strangers", counted_list(survey.strangers, [](const auto& picture) { return json_of(picture); })}};
}

}  // namespace

runner::Result<Json> answer_check_data(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(request, {"graph", "distance"});
  runner::Graph graph = runner::graph_from_json(fields.object("graph"));
  SurveyOptions options;
  options.most_bits = static_cast<int>(std::clamp<std::int64_t>(fields.integer("distance"), 0, kMostBits));
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  options.cancelled = context.cancelled;
  options.progress = [&](std::int64_t done, std::int64_t all) {
    runner::Progress progress;
    progress.phase = "check";
    progress.step = done;
    progress.steps = all;
    context.progress(progress);
  };
  Json data = Json::array();
  for (runner::Node& node : graph.nodes) {
    keep_copies(node);
    auto stage = runner::create_stage(node, all_kinds());
    if (!stage) return stage.errors();
    try {
      data.push_back(json_of(survey_pictures(pictures_of(node, graph, **stage, context), options), node));
    } catch (const StageError& error) {
      const std::string& place = error.stage.empty() ? node.pointer : error.stage;
      throw StageError(error.code, error.what()).at(place + error.option).with_help(error.help);
    }
  }
  return Json{{"data", std::move(data)}};
}

}  // namespace stages
