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

/// Reads schema files into nodes. Every error in a schema is a kBadSchema error with the file's
/// name and the pointer; reading continues after an error so that all are found.
///
/// Files are registered first and read later: all at once, for checking, or each one when it is
/// first requested or referred to. Texts that have not been read yet must stay alive.
class SchemaReader {
 public:
  using Json = nlohmann::ordered_json;
  SchemaReader() = default;
  SchemaReader(const SchemaReader&) = delete;
  SchemaReader& operator=(const SchemaReader&) = delete;

  /// Registers a file; `path` is its name below schemas/.
  void add_file(const SchemaFile& file);
  /// Reads all files, resolves $ref and x-kinds, and rejects cycles.
  void read_all();

  /// Returns the paths of all files, sorted.
  std::vector<std::string_view> paths() const;
  /// Returns the contents of a file; null if there is no such file. Throws std::logic_error if the
  /// file had not been read yet and is invalid.
  const Json* document(std::string_view path);
  /// Returns the node at "file" or "file#pointer"; null if there is none. Throws as document()
  /// does.
  SchemaNode* at(std::string_view address);

  std::deque<SchemaNode> nodes;  ///< nodes of the files read so far; a deque keeps addresses stable
  Diagnostics errors;

 private:
  struct Document {
    std::string_view path;
    Json json;
    std::unordered_map<std::string_view, SchemaNode*> nodes;  // by SchemaNode::pointer
  };

  /// Returns the contents of a file, reading it on the first call. Null if it does not exist or is
  /// not JSON.
  Document* need(std::string_view path);
  void read_file(std::string_view path, std::string_view text);
  /// Resolves the references of all new nodes and reads the files that they refer to.
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
  void fail(std::string_view file, std::string pointer, const std::string& message,
            std::string help = "");

  std::map<std::string, std::string_view, std::less<>> texts_;  // texts of all files, by path
  std::map<std::string_view, Document, std::less<>>
      documents_;              // documents of the files read so far, by the path in texts_
  std::size_t connected_ = 0;  // the number of nodes that connect() has finished
};

}  // namespace runner
