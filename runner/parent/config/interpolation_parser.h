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

/// A text cut at its interpolations: literal text, or an interpolation.
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

/// What is wrong with an interpolation, and what to do about it.
struct InterpolationSyntaxError {
  std::string message;
  std::string help = "a literal ${ is written \\${";
};

/// Cuts `text` at its interpolations and removes the backslashes that escape `${`.
/// Throws InterpolationSyntaxError; nesting is bounded.
TextPieces parse_interpolations(std::string_view text);

/// A key without the braces around it: "a.b", "..a[0]". Throws InterpolationSyntaxError.
Interpolation parse_interpolation_key(std::string_view text);

/// A value in the grammar of overrides, without sweeps and functions that change what is there.
/// Interpolations are left in its texts as they are written, and a text in quotes has its
/// ScalarForm; no value has a place. Throws InterpolationSyntaxError.
Value parse_written_value(std::string_view text);

/// Is this ${item.x}, which composition leaves to the compiler?
bool is_item(const Interpolation& interpolation);

/// Calls `change` with `value` and everything in it.
void for_all(Value& value, const std::function<void(Value&)>& change);

/// What a copy of `value` costs: its values, and a little for long texts.
std::size_t copy_cost(const Value& value);

/// An interpolation as messages show it.
std::string quoted_reference(const Interpolation& interpolation);

/// Is there an ${item.x} among them?
bool keeps_item(const TextPieces& pieces);
/// Does `text` hold ${item.x}, and nothing that is wrong?
bool holds_item(const std::string& text);

/// A text that gives `literal` when its interpolations are resolved.
std::string escaped(const std::string& literal);

/// A value of a document and the way to it from the root. Borrows the value and its parent.
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

/// Finds what a key names in a mapping, or an index, counted from either end, in a list. Large
/// mappings are indexed when they are first asked, so the values must stay as they are and where
/// they are.
class ChildFinder {
 public:
  /// Null when there is no such child.
  const Value* find(const Value& parent, const std::string& key);

 private:
  std::unordered_map<const Value*, std::unordered_map<std::string_view, const Value*>> indexes_;
};

/// One walk over a document that resolves its interpolations, adding what is wrong to `found`.
/// resolve_interpolations() uses it; interpolation_lookup.cpp finds what keys name,
/// interpolation_call.cpp calls resolvers.
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

  /// What a key named: a value, or nothing; and then what lacked it, null when the key leads out of
  /// the document.
  struct Found {
    Resolved value = {};
    bool failed = false;
    bool is_secret = false;  ///< a part of the key was one, or this is a part of one
    const Value* parent = nullptr;
    std::string missing_key = {};
  };

  void error(const Scope& scope, ErrorCode code, std::string message, std::string help = "");
  /// True when there is too much to continue; said once.
  bool exhausted(const Scope& scope, std::size_t added);
  Resolved resolve(const Scope& scope);
  Resolved resolve_within(const Scope& scope);
  /// Each text is resolved once, whoever asks. Null: failed.
  const Value* remembered(const Scope& scope);
  void report_cycle(const Scope& scope);
  /// The value of a text, which stands at `scope`, or came into being there as the argument of a
  /// resolver.
  Resolved resolve_text(const Value& value, const Scope& scope, bool is_argument = false);
  /// The pieces as one text, `written`; `???` when one of them is.
  Resolved join(const TextPieces& pieces, const Scope& scope, const std::string& written);
  Resolved evaluate(const Interpolation& interpolation, const Scope& scope);
  /// The error of a text that must be known now and holds ${item.x}.
  bool refuses_item(const TextPieces& pieces, const Scope& scope, const std::string& use);
  /// `written` with the interpolations in its texts resolved; it is no part of the document. A text
  /// in quotes stays one.
  Resolved resolve_written(const Value& written, const Scope& scope);

  Resolved look_up(const Interpolation& interpolation, const Scope& scope);
  /// `value`, all of it a secret that is shown as `interpolation`.
  Resolved hidden(Resolved value, const Interpolation& interpolation, const Scope& scope);
  /// What the interpolation's key names.
  Found find(const Interpolation& interpolation, const Scope& scope);
  Found walk(const Scope& start, const std::vector<std::string>& keys);
  /// remembered(), within the bound on depth.
  const Value* stands_for(const Scope& scope);
  /// Continues inside the value of an interpolation on the way.
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
