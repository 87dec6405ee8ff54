#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/parent/config/interpolation.h"
#include "runner/parent/config/interpolation_parser.h"

namespace runner {

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

/// Finds what a key names in a mapping, or an index, counted from either end, in a list. Large mappings are indexed
/// when they are first asked, so the values must stay as they are and where they are.
class ChildFinder {
 public:
  /// Null when there is no such child.
  const Value* find(const Value& parent, const std::string& key);

 private:
  std::unordered_map<const Value*, std::unordered_map<std::string_view, const Value*>> indexes_;
};

/// One walk over a document that resolves its interpolations, adding what is wrong to `found`. resolve_interpolations()
/// uses it; interpolation_lookup.cpp finds what keys name, interpolation_call.cpp calls resolvers.
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

  /// What a key named: a value, or nothing; and then what lacked it, null when the key leads out of the document.
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
  /// The value of a text, which stands at `scope`, or came into being there as the argument of a resolver.
  Resolved resolve_text(const Value& value, const Scope& scope, bool is_argument = false);
  /// The pieces as one text, `written`; `???` when one of them is.
  Resolved join(const TextPieces& pieces, const Scope& scope, const std::string& written);
  Resolved evaluate(const Interpolation& interpolation, const Scope& scope);
  /// The error of a text that must be known now and holds ${item.x}.
  bool refuses_item(const TextPieces& pieces, const Scope& scope, const std::string& use);
  /// `written` with the interpolations in its texts resolved; it is no part of the document. A text in quotes stays
  /// one.
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
