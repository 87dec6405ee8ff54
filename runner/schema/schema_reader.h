#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/error/result.h"
#include "runner/schema/schema_node.h"

namespace runner {

/// Schema files read into nodes. Every mistake in a schema is a kBadSchema with the file's name and the pointer;
/// reading continues after it, so that all are found.
class SchemaReader {
 public:
  using Json = nlohmann::ordered_json;

  /// Reads one file; `path` is its name below schemas/.
  void read_file(const std::string& path, std::string_view text);

  /// Once all files are read: makes $ref and x-kinds point to their nodes and refuses circles.
  void connect();

  std::map<std::string, Json, std::less<>> documents;                ///< by path
  std::deque<SchemaNode> nodes;                                      ///< a deque: addresses stay put
  std::map<std::string, SchemaNode*, std::less<>> nodes_by_address;  ///< by "file#pointer"
  Diagnostics errors;

 private:
  SchemaNode* read(const Json& json, const std::string& file, const std::string& pointer, int depth);
  void read_keyword(SchemaNode& node, const std::string& key, const Json& json, int depth);
  Rule read_rule(const Json& json, const std::string& file, const std::string& pointer);
  void connect_reference(SchemaNode& node);
  void connect_kinds(SchemaNode& node);
  void refuse_circles();
  void fail(const std::string& file, std::string pointer, const std::string& message, std::string help = "");
};

}  // namespace runner
