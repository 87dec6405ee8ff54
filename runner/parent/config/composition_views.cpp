#include "runner/parent/config/composition_views.h"

#include <algorithm>
#include <array>
#include <vector>

#include <nlohmann/json.hpp>

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::array<std::string, 4>;

/// Formats `rows` as aligned columns; the first row is the heading.
std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, 4> widths = {};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

void add_branch(const DefaultsNode& node, const std::string& indent, std::string& text) {
  text += indent + node.text + '\n';
  for (const DefaultsNode& child : node.children) add_branch(child, indent + "  ", text);
}

Json branch(const DefaultsNode& node) {
  Json json = {{"name", node.text}};
  for (const DefaultsNode& child : node.children) json["children"].push_back(branch(child));
  return json;
}

}  // namespace

std::string defaults_text(const DefaultsList& list) {
  std::vector<Row> rows = {{"Config", "Package", "Parent", "File"}};
  for (const ConfigPart& part : list.parts)
    rows.push_back({part.name, part.package.empty() ? "_global_" : part.package, part.parent,
                    part.document->file.string()});
  return table(rows);
}

Json defaults_json(const DefaultsList& list) {
  Json json = Json::array();
  for (const ConfigPart& part : list.parts) {
    json.push_back({{"config", part.name},
                    {"package", part.package},
                    {"parent", part.parent.empty() ? Json() : Json(part.parent)},
                    {"file", part.document->file.string()}});
  }
  return json;
}

std::string defaults_tree_text(const DefaultsList& list) {
  std::string text;
  add_branch(list.tree, "", text);
  return text;
}

Json defaults_tree_json(const DefaultsList& list) { return branch(list.tree); }

std::string search_path_text(const ConfigFiles& configs) {
  std::string text;
  for (const auto& folder : configs.folders()) {
    text += folder.string() + (configs.has_folder(folder) ? "\n" : "    (missing)\n");
  }
  return text;
}

Json search_path_json(const ConfigFiles& configs) {
  Json json = Json::array();
  for (const auto& folder : configs.folders())
    json.push_back({{"folder", folder.string()}, {"exists", configs.has_folder(folder)}});
  return json;
}

}  // namespace runner
