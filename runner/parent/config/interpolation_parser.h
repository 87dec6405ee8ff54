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

/// A text split at its interpolations: literal text, or an interpolation.
using TextPiece = std::variant<std::string, std::unique_ptr<Interpolation>>;
using TextPieces = std::vector<TextPiece>;

/// One ${...}.
struct Interpolation {
  std::string written;           ///< "${a.b}", as it stands in the text
  int dots = 0;                  ///< leading dots of a relative key; 0: from the root
  std::vector<TextPieces> keys;  ///< ${a.b.c}: each a literal or a nested interpolation
  std::string resolver;          ///< "oc.env" of ${oc.env:HOME}; empty for a key
  std::vector<Value> arguments;  ///< of the resolver, as parse_written_value() reads them
};

/// An error in an interpolation, and advice.
struct InterpolationSyntaxError {
  std::string message;
  std::string help = "a literal ${ is written \\${";
};

/// Splits `text` at its interpolations and removes the backslashes that escape `${`. Throws
/// InterpolationSyntaxError; nesting is limited.
TextPieces parse_interpolations(std::string_view text);

/// A key without the braces around it: "a.b", "..a[0]". Throws InterpolationSyntaxError.
Interpolation parse_interpolation_key(std::string_view text);

/// A value in the grammar of overrides, without sweeps and editing functions. Interpolations in its
/// texts stay as written, and a quoted text has its ScalarForm; values have no place. Throws
/// InterpolationSyntaxError.
Value parse_written_value(std::string_view text);

/// True for ${item.x}, which composition leaves to the compiler.
bool is_item(const Interpolation& interpolation);

/// Calls `change` with `value` and everything in it.
void for_all(Value& value, const std::function<void(Value&)>& change);

/// The cost of copying `value`: its number of values, and a little for long texts.
std::size_t copy_cost(const Value& value);

/// An interpolation as shown in messages.
std::string quoted_reference(const Interpolation& interpolation);

/// True if the pieces contain an ${item.x}.
bool keeps_item(const TextPieces& pieces);
/// True if `text` contains ${item.x} and has no syntax error.
bool holds_item(const std::string& text);

/// A text that resolves to `literal`.
std::string escaped(const std::string& literal);

/// A value of a document and its path from the root. Borrows the value and its parent.
struct Scope {
  const Value* value;
  std::string key;
  const Scope* parent;  ///< null for the root
};

/// The keys from the root to `scope`.
std::vector<std::string> path_of(const Scope& scope);

/// The same as "a.b.0", and as an RFC 6901 pointer.
std::string dotted_path(const Scope& scope);
std::string pointer_of(const Scope& scope);

/// Finds the child of a mapping by key, or of a list by index, counted from either end. Indexes
/// large mappings on first use, so the values must not change or move.
class ChildFinder {
 public:
  /// Null if there is no such child.
  const Value* find(const Value& parent, const std::string& key);

 private:
  std::unordered_map<const Value*, std::unordered_map<std::string_view, const Value*>> indexes_;
};

/// One pass over a document that resolves its interpolations and adds errors to `found`. Used by
/// resolve_interpolations(); interpolation_lookup.cpp looks up keys, interpolation_call.cpp calls
/// resolvers.
class InterpolationPass {
 public:
  InterpolationPass(const Value& document, const InterpolationSources& sources, Diagnostics& found)
      : document_(document), root_{&document, "", nullptr}, sources_(sources), found_(found) {}

  Value resolve_all();

 private:
  class Call;
  using Resolved = std::optional<Value>;  // nullopt: failed, and the error is recorded

  /// A text with an interpolation: being resolved, resolved, or (nullopt) failed.
  struct Memo {
    bool active = true;
    Resolved value;
  };

  /// The target of a key: a value, or nothing; then also the value that lacks the key, null if the
  /// key leads out of the document.
  struct Found {
    Resolved value = {};
    bool failed = false;
    bool is_secret = false;  ///< part of the key was a secret, or the target is part of one
    const Value* parent = nullptr;
    std::string missing_key = {};
  };

  void error(const Scope& scope, ErrorCode code, std::string message, std::string help = "");
  /// True if the document has grown too large to continue; reported once.
  bool exhausted(const Scope& scope, std::size_t added);
  Resolved resolve(const Scope& scope);
  Resolved resolve_within(const Scope& scope);
  /// Resolves each text only once. Null: failed.
  const Value* remembered(const Scope& scope);
  void report_cycle(const Scope& scope);
  /// The value of a text at `scope`, or of a resolver argument created there.
  Resolved resolve_text(const Value& value, const Scope& scope, bool is_argument = false);
  /// The pieces joined to one text, `written`; `???` if one of them is.
  Resolved join(const TextPieces& pieces, const Scope& scope, const std::string& written);
  Resolved evaluate(const Interpolation& interpolation, const Scope& scope);
  /// Reports a text that must be known now but contains ${item.x}.
  bool refuses_item(const TextPieces& pieces, const Scope& scope, const std::string& use);
  /// `written` with the interpolations in its texts resolved; it is not part of the document. A
  /// quoted text stays a text.
  Resolved resolve_written(const Value& written, const Scope& scope);

  Resolved look_up(const Interpolation& interpolation, const Scope& scope);
  /// `value`, marked entirely as a secret shown as `interpolation`.
  Resolved hidden(Resolved value, const Interpolation& interpolation, const Scope& scope);
  /// The target of the interpolation's key.
  Found find(const Interpolation& interpolation, const Scope& scope);
  Found walk(const Scope& start, const std::vector<std::string>& keys);
  /// remembered(), within the depth limit.
  const Value* stands_for(const Scope& scope);
  /// Continues inside the value of an interpolation on the path.
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
