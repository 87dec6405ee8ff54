#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runner/parent/config/interpolation.h"
#include "runner/shared/value/value.h"

namespace runner {

struct Interpolation;

/// A piece of a string split at its interpolations: literal text or an interpolation.
using TextPiece = std::variant<std::string, std::unique_ptr<Interpolation>>;
using TextPieces = std::vector<TextPiece>;

/// One ${...}.
struct Interpolation {
  std::string written;           ///< "${a.b}", as written
  int dots = 0;                  ///< leading dots of a relative key; 0: a key from the root
  std::vector<TextPieces> keys;  ///< a, b and c of ${a.b.c}; each may contain interpolations
  std::string resolver;          ///< "oc.env" of ${oc.env:HOME}; empty for a key
  std::vector<Value> arguments;  ///< the resolver's arguments, as read by parse_written_value()
};

/// An error in an interpolation, with advice.
struct InterpolationSyntaxError {
  std::string message;
  std::string help = "a literal ${ is written \\${";
};

/// Splits `text` at its interpolations and removes the backslashes that escape `${`. Throws
/// InterpolationSyntaxError for invalid syntax, and for interpolations that are nested too deeply.
TextPieces parse_interpolations(std::string_view text);

/// Parses a key without its surrounding braces: "a.b", "..a[0]". Throws InterpolationSyntaxError.
Interpolation parse_interpolation_key(std::string_view text);

/// Parses a value in the grammar of overrides, without sweeps and editing functions. Interpolations
/// in its strings stay as written, a quoted string keeps its ScalarForm, and values have no
/// Location. Throws InterpolationSyntaxError.
Value parse_written_value(std::string_view text);

/// True for ${item.x}, which composition leaves to the compiler.
bool is_item(const Interpolation& interpolation);

/// Calls `change` for `value` and for each value in it, at any depth.
void for_all(Value& value, const std::function<void(Value&)>& change);

/// Returns the cost of copying `value`: the number of values in it, plus some extra for long
/// strings.
std::size_t copy_cost(const Value& value);

/// Formats an interpolation for a message.
std::string quoted_reference(const Interpolation& interpolation);

/// True if the pieces contain an ${item.x}.
bool keeps_item(const TextPieces& pieces);
/// True if `text` contains ${item.x} and has no syntax error.
bool holds_item(const std::string& text);

/// Returns a string that resolves to `literal`.
std::string escaped(const std::string& literal);

/// A value of a document and its path from the root. Borrows the value and its parent.
struct Scope {
  const Value* value;
  std::string key;
  const Scope* parent;  ///< null for the root
};

/// Returns the keys from the root to `scope`.
std::vector<std::string> path_of(const Scope& scope);

/// Returns the path from the root to `scope` as "a.b.0".
std::string dotted_path(const Scope& scope);
/// Returns the path from the root to `scope` as an RFC 6901 pointer.
std::string pointer_of(const Scope& scope);

/// Finds a child of a mapping by key, or of a list by index; negative indices count from the end.
/// Indexes large mappings on first use, so the values must not change or move.
class ChildFinder {
 public:
  /// Returns null if there is no such child.
  const Value* find(const Value& parent, const std::string& key);

 private:
  std::unordered_map<const Value*, std::unordered_map<std::string_view, const Value*>> indexes_;
};

/// A pass over a document that resolves its interpolations and adds errors to `found`. Used by
/// resolve_interpolations(); interpolation_lookup.cpp looks up keys, interpolation_call.cpp calls
/// resolvers.
class InterpolationPass {
 public:
  InterpolationPass(const Value& document, const InterpolationSources& sources, Diagnostics& found)
      : document_(document), root_{&document, "", nullptr}, sources_(sources), found_(found) {}

  Value resolve_all();

 private:
  class Call;
  using Resolved = std::optional<Value>;  // nullopt if it failed; the error is recorded

  /// The state of a string with an interpolation: being resolved (`active`), resolved, or failed
  /// (nullopt).
  struct Memo {
    bool active = true;
    Resolved value;
  };

  /// The result of looking up a key: its value, or the value that lacks the key. Both are empty if
  /// the key points outside the document.
  struct Found {
    Resolved value = {};
    bool failed = false;
    bool is_secret = false;  ///< part of the key was a secret, or the target is inside a secret
    const Value* parent = nullptr;
    std::string missing_key = {};
  };

  void error(const Scope& scope, ErrorCode code, std::string message, std::string help = "");
  /// Adds `added` to the cost. Returns true if the document has become too large or too deep to
  /// continue, and reports that once.
  bool exhausted(const Scope& scope, std::size_t added);
  Resolved resolve(const Scope& scope);
  Resolved resolve_within(const Scope& scope);
  /// Resolves the string at `scope`, or returns the result of an earlier call. Null if it failed.
  const Value* remembered(const Scope& scope);
  void report_cycle(const Scope& scope);
  /// Resolves a string at `scope`, or a resolver argument that was created there.
  Resolved resolve_text(const Value& value, const Scope& scope, bool is_argument = false);
  /// Joins the resolved pieces of the string `written`. Returns `???` if one of them is `???`.
  Resolved join(const TextPieces& pieces, const Scope& scope, const std::string& written);
  Resolved evaluate(const Interpolation& interpolation, const Scope& scope);
  /// Reports an error and returns true if the pieces contain ${item.x}, which is not known yet. The
  /// message says that ${item.x} cannot do what `use` describes, such as "be the argument of a
  /// resolver".
  bool refuses_item(const TextPieces& pieces, const Scope& scope, const std::string& use);
  /// Resolves the interpolations in the strings of `written`, which is not part of the document. A
  /// quoted string stays a string.
  Resolved resolve_written(const Value& written, const Scope& scope);

  Resolved look_up(const Interpolation& interpolation, const Scope& scope);
  /// Marks everything in `value` as a secret that is shown as `interpolation`.
  Resolved hidden(Resolved value, const Interpolation& interpolation, const Scope& scope);
  /// Looks up the key of the interpolation.
  Found find(const Interpolation& interpolation, const Scope& scope);
  Found walk(const Scope& start, const std::vector<std::string>& keys);
  /// Calls remembered() within the depth limit.
  const Value* stands_for(const Scope& scope);
  /// Looks up `keys`, the rest of a path, in `resolved`, the value of an interpolation along the
  /// path.
  Found descend(const Value& resolved, std::span<const std::string> keys);
  Found declared(const Scope& here, std::span<const std::string> keys);
  void report_unknown(const Interpolation& interpolation, const Scope& scope, const Found& found);

  Resolved call(const Interpolation& interpolation, const Scope& scope);

  const Value& document_;
  const Scope root_;
  const InterpolationSources& sources_;
  Diagnostics& found_;
  ChildFinder children_;
  std::unordered_map<const Value*, Memo> memos_;
  std::vector<const Scope*> active_;
  std::size_t cost_ = 0, compared_ = 0;
  int depth_ = 0;
  bool stopped_ = false;
};

}  // namespace runner
