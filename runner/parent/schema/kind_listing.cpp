#include "runner/parent/schema/kind_listing.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

std::string ports_line(std::span<const Port> ports) {
  std::string line;
  for (const Port& port : ports) {
    line += (line.empty() ? "" : ", ") + port.name + ": " + std::string(name(port.type));
    if (port.many) line += ", many";
    if (port.optional) line += " (optional)";
  }
  return line;
}

Json ports_json(std::span<const Port> ports, bool inputs) {
  Json list = Json::array();
  for (const Port& port : ports) {
    Json json = {{"name", port.name}, {"type", name(port.type)}};
    if (inputs) json.update({{"optional", port.optional}, {"many", port.many}});
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

std::string ports_text(const Kind& kind, const std::string& margin) {
  std::string text;
  if (!kind.inputs.empty()) text += margin + "in   " + ports_line(kind.inputs) + "\n";
  if (!kind.outputs.empty()) text += margin + "out  " + ports_line(kind.outputs) + "\n";
  return text;
}

Json kind_json(const Kind& kind) {
  return {{"name", kind.name},
          {"family", kind.family},
          {"summary", kind.summary},
          {"version", kind.version},
          {"inputs", ports_json(kind.inputs, true)},
          {"outputs", ports_json(kind.outputs, false)},
          {"cacheable", kind.cacheable}};
}

std::string stages_text(const SchemaSet& schemas) {
  std::size_t width = 0;
  for (const Kind& kind : schemas.kinds()) width = std::max(width, kind.name.size());
  std::string text, family;
  for (const Kind& kind : schemas.kinds()) {
    if (kind.family != family) text += (text.empty() ? "" : "\n") + kind.family + "\n";
    family = kind.family;
    text += "  " + kind.name + std::string(width - kind.name.size() + 2, ' ') + kind.summary + "\n";
    text += ports_text(kind, "    ");
  }
  return text;
}

Json stages_json(const SchemaSet& schemas) {
  Json kinds = Json::array();
  for (const Kind& kind : schemas.kinds()) kinds.push_back(kind_json(kind));
  return {{"kinds", std::move(kinds)}};
}

}  // namespace runner
