#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Schema files read into nodes. Every mistake in a schema is a kBadSchema with the file's name and
/// the pointer; reading continues after it, so that all are found.
///
/// Files are known first and read later: all at once, to be checked, or each when it is first asked
/// for, or referred to by one that is. Texts that are not read yet must live on.
class SchemaReader {
 public:
  using Json = nlohmann::ordered_json;
  SchemaReader() = default;
  SchemaReader(const SchemaReader&) = delete;
  SchemaReader& operator=(const SchemaReader&) = delete;

  /// Makes a file known; `path` is its name below schemas/.
  void add_file(const SchemaFile& file);
  /// Reads all files, makes $ref and x-kinds point to their nodes, and refuses circles.
  void read_all();

  /// The paths of all files, sorted.
  std::vector<std::string_view> paths() const;
  /// What stands in a file. Null: there is no such file. Throws std::logic_error where it is read
  /// only now and is wrong.
  const Json* document(std::string_view path);
  /// The node at "file" or "file#pointer"; likewise.
  SchemaNode* at(std::string_view address);

  std::deque<SchemaNode> nodes;  ///< of what has been read; a deque: addresses stay put
  Diagnostics errors;

 private:
  struct Document {
    std::string_view path;
    Json json;
    std::unordered_map<std::string_view, SchemaNode*> nodes;  // by pointer, which is the node's
  };

  /// Reads a file that is not read yet. Null: it is not there, or is no JSON.
  Document* need(std::string_view path);
  void read_file(std::string_view path, std::string_view text);
  /// Makes all nodes that are new point to others, reading the files of those.
  void connect();
  SchemaNode* find(std::string_view file, std::string_view pointer);
  SchemaNode* read(const Json& json, Document& document, std::string pointer, int depth);
  void read_keyword(SchemaNode& node, Document& document, const std::string& key, const Json& json,
                    int depth);
  Rule read_rule(const Json& json, std::string_view file, const std::string& pointer);
  void check_condition(const std::string& condition, std::string_view file,
                       const std::string& pointer);
  void connect_reference(SchemaNode& node);
  void connect_kinds(SchemaNode& node);
  void refuse_circles();
  void fail(std::string_view file, std::string pointer, const std::string& message,
            std::string help = "");

  std::map<std::string, std::string_view, std::less<>> texts_;  // of all files, by path
  std::map<std::string_view, Document, std::less<>>
      documents_;              // of those that are read, by the path in texts_
  std::size_t connected_ = 0;  // of the nodes
};

}  // namespace runner
