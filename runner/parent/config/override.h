#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// An override that edits the existing value instead of replacing it:
///
///   layers=append(4,5)      layers=prepend(0)    layers=insert(1,7)    layers=remove_at(-1)
///   layers=remove_value(3)  train={...} merges; train=replace({...}) does not
struct Edit {
  enum class Kind { kAppend, kPrepend, kInsert, kRemoveAt, kRemoveValue, kReplace };
  Kind kind = Kind::kAppend;
  std::int64_t index = 0;  ///< the index for kInsert and kRemoveAt; negative: counted from the end
  std::vector<Value> values = {};  ///< the values to add or remove; exactly one for kReplace
};

/// Why a list cannot be changed ("has no item 3"), and what to do about it.
struct EditProblem {
  std::string message;
  std::string help;
};

/// Applies `edit`, which must not be kReplace, to `list`. If there is a problem, returns it and
/// leaves the list unchanged.
std::optional<EditProblem> apply_edit(Value::List& list, const Edit& edit);

struct Override;

/// Several values for one key; each trial of a sweep uses one.
struct Sweep {
  enum class Kind {
    kSimpleChoice,  ///< a,b,c
    kChoice,        ///< choice(a,b,c)
    kRange,         ///< range(start,stop,step): half open
    kInterval,      ///< interval(start,end): sweep.samples values are drawn from it
    kGlob,          ///< glob(include,exclude): option names of the key's group
    kZip,  ///< zip(a=[..],b=[..]): rows that set several keys at once; the override's key is the
           ///< dimension's name
  };
  Kind kind = Kind::kSimpleChoice;
  Location where = {};
  std::vector<std::string> tags = {};  ///< the tags in tag(log,...), without duplicates
  bool shuffle = false;                ///< the order depends on the sweep's seed

  std::vector<Value> choices = {};  ///< the values of a choice, in order

  /// For a range: integers, booleans (0 or 1) or floats. An interval uses only start and stop.
  Value start = {}, stop = {}, step = {};

  std::vector<Value> include = {}, exclude = {};  ///< the patterns of a glob

  /// For a zip, and for a sweep over an alias of several keys: the overrides of each row.
  std::vector<std::vector<Override>> rows = {};
};

enum class OverrideKind {
  kChange,    ///< key=value
  kAdd,       ///< +key=value
  kForceAdd,  ///< ++key=value
  kDelete,    ///< ~key or ~key=value
};

/// One parsed command-line override. Its grammar is Hydra's, including typed scalars, quotes and
/// escapes.
struct Override {
  OverrideKind kind = OverrideKind::kChange;
  std::string key;  ///< as typed: "train.epochs" or, for a config group, "model/backbone"
  Location key_where = {};
  std::string alias = {};  ///< the key as typed if it is an alias of `key`; else empty
  std::optional<std::string> package = {};  ///< the text after '@' in the key; empty for the root
  Location package_where = {};
  std::optional<Value> value =
      {};  ///< a plain value; absent for ~key, and if `sweep` or `edit` is set
  std::optional<Sweep> sweep = {};  ///< several values, one per trial: a,b or range(1,3)
  std::optional<Edit> edit = {};    ///< a change to the existing value: append(x)
  std::string value_text = {};      ///< the value as typed
  Location where = {};              ///< the whole override
};

/// The prefix of an override kind, as shown in messages: "", "+", "++" or "~".
std::string_view prefix(OverrideKind kind);

/// Parses `source`, one override in Hydra's grammar with extensions (override_value.h). Rejects an
/// empty key, and sweeps inside lists, mappings and other sweeps.
Result<Override> parse_override(const SourceText& source);

/// Parses the text before '=' in `source`, from byte `start` to `end`, and stores its prefix, key
/// and package in `result`. A key is a path `a.b.0` or a config group `a/b`; as an extension,
/// `a[0].b` is a.0.b. Throws OverrideError.
void read_override_key(const SourceText& source, std::size_t start, std::size_t end,
                       Override& result);

/// Returns the number of bytes at the start of `text` that can belong to a key, including `+` and
/// `@package`; for lookahead.
std::size_t override_key_length(std::string_view text);

/// Returns the error for an override with several values when a single run is requested.
Diagnostic needs_multirun(const Override& override);

/// Formats `value` as Hydra does in an override: no spaces, True and False, 1e-05, backslashes
/// before special characters, and quotes if it was parsed with quotes. The result parses back to
/// the same value, so strings are quoted where this is necessary. A secret is shown as in records.
std::string element_text(const Value& value);

/// Formats an override: "+a.b@c=value", "~a" or, for a sweep or an edit, the typed text.
std::string override_text(const Override& override);

}  // namespace runner
