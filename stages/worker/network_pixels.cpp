#include "stages/worker/network_pixels.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/graph/graph.h"
#include "stages/python/python_host.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

/// The network is created for some number of classes, on which its pixels do not depend.
constexpr int kClasses = 2;

Json pixels_of(const runner::Node& node) {
  const Json options = runner::to_json(node.options, /*hide_secrets=*/false);
  Json request = {
      {"do", "pixels"}, {"entry", options.at("entry")}, {"arguments", options.at("arguments")}};
  const bool has_classes =
      options.at("towers").is_null() || !options.at("towers").at("class_head").is_null();
  if (const Json& argument = options.at("class_argument"); has_classes && argument.is_string()) {
    request["arguments"][argument.get<std::string>()] = kClasses;
    request["class_argument"] = argument;
  }
  return call_python(request);
}

}  // namespace

runner::Result<Json> answer_network_pixels(const Json& request, const RequestContext&) {
  const auto fields = request_fields(request, {"graph"});
  const runner::Graph graph = runner::graph_from_json(fields.object("graph"));
  Json networks = Json::array();
  for (const runner::Node& node : graph.nodes) {
    if (node.kind != "model.python") continue;
    try {
      networks.push_back(pixels_of(node));
      networks.back()["node"] = node.id;
    } catch (const runner::StageError& error) {
      return runner::Diagnostic{error.code, {}, node.pointer + "/entry", error.what(), error.help};
    }
  }
  return Json{{"networks", std::move(networks)}};
}

}  // namespace stages
