#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Builds the Value of one YAML document from a parser's events, in document order: checks keys,
/// resolves anchors, aliases and `<<`, and limits depth and size.
///
///   builder.open({Value::List{}, where}, "?", 0);
///   builder.scalar(where, "?", "1", 0);
///   builder.close();
///
/// Adds errors to `errors`, and warnings about unquoted text that YAML 1.1 reads unexpectedly to
/// `warnings`. Anchors are yaml-cpp's numbers; 0 means none. A tag is "?" for an unquoted scalar,
/// "!" for a quoted scalar, empty for null, or the tag as written.
class DocumentBuilder {
 public:
  /// Thrown if there is no point in continuing to parse; the error is recorded first.
  struct Stop {};

  DocumentBuilder(Diagnostics& errors, Diagnostics& warnings)
      : errors_(errors), warnings_(warnings) {}

  void start_document(const Location& where);
  void scalar(const Location& where, const std::string& tag, const std::string& text,
              std::size_t anchor);
  void null(const Location& where, std::size_t anchor);
  void alias(const Location& where, std::size_t anchor);
  void open(Value container, const std::string& tag, std::size_t anchor);
  void close();

  /// Returns the document; null if there was none.
  Value take() { return std::move(root_); }

 private:
  /// How to treat the next value of a mapping.
  enum class Pending { kKey, kValue, kMerge, kDropped };

  /// A container that has not been closed.
  struct Frame {
    Value value;
    std::size_t anchor = 0;
    Pending pending = Pending::kKey;
    Entry next = {};  ///< the current entry, once its key has been read
    std::unordered_map<std::string, Location> keys = {};
    std::vector<Value> merges = {};
  };

  void error(ErrorCode code, const Location& where, std::string message, std::string help);
  [[noreturn]] void stop(ErrorCode code, const Location& where, std::string message,
                         std::string help);
  void check_depth(std::size_t depth, const Location& where);
  bool expects_key() const;
  void finish(Value value, std::size_t anchor, bool is_merge);
  void add(Value value, const Location& where, bool is_merge);
  void add_key(Frame& frame, const Value& key, const Location& where, bool is_merge);
  void add_merge(Frame& frame, Value value, const Location& where);

  Diagnostics& errors_;
  Diagnostics& warnings_;
  Value root_;
  std::vector<Frame> frames_;
  std::unordered_map<std::size_t, Value> anchors_;
  int documents_ = 0;
  std::size_t nodes_ = 0;
  std::size_t aliased_nodes_ = 0;
  std::size_t aliased_bytes_ = 0;
};

}  // namespace runner
