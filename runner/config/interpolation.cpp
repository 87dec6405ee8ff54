#include "runner/config/interpolation.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <deque>
#include <unordered_map>
#include <utility>

#include "runner/config/interpolation_parser.h"
#include "runner/config/merge.h"
#include "runner/config/scalar.h"
#include "runner/suggest.h"
#include "runner/utf8.h"

namespace runner {
namespace {

constexpr int kMaxDepth = 200;
constexpr std::size_t kMaxCost = 100'000;

/// A value and the way to it from the root.
struct Scope {
  const Value* value;
  std::string key;
  const Scope* parent;  ///< null for the root
};

std::vector<std::string> path_of(const Scope* scope) {
  std::vector<std::string> path;
  for (; scope && scope->parent; scope = scope->parent) path.push_back(scope->key);
  std::ranges::reverse(path);
  return path;
}

std::string dotted(const std::vector<std::string>& path) {
  std::string result;
  for (const std::string& key : path) result += (result.empty() ? "" : ".") + key;
  return result;
}

std::string pointer_of(const Scope* scope) {
  std::string result;
  for (const std::string& key : path_of(scope)) result = pointer_to(result, key);
  return result;
}

/// What a copy of `value` costs: its values, and a little for long texts.
std::size_t cost(const Value& value) {
  std::size_t total = 1;
  if (const auto* text = value.text()) total += text->size() / 256;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) total += cost(item);
  }
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) total += cost(entry.value);
  }
  return total;
}

const Value* child(const Value& parent, const std::string& key) {
  const auto* list = parent.list();
  if (!list) return parent.find(key);
  std::int64_t index = 0;
  const auto result = std::from_chars(key.data(), key.data() + key.size(), index);
  if (result.ec != std::errc() || result.ptr != key.data() + key.size()) return nullptr;
  const auto size = static_cast<std::int64_t>(list->size());
  if (index < 0) index += size;
  return index >= 0 && index < size ? &(*list)[static_cast<std::size_t>(index)] : nullptr;
}

bool names_a_secret(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return std::ranges::any_of(std::initializer_list<std::string_view>{"TOKEN", "KEY", "SECRET", "PASSWORD"},
                             [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

class Resolver {
 public:
  Resolver(const Value& recipe, const Declared& declared, const Environment& environment, Diagnostics& errors)
      : recipe_(recipe), root_{&recipe, "", nullptr}, declared_(declared), environment_(environment), errors_(errors) {}

  Value resolve_all() {
    std::optional<Value> result = resolve(root_);
    return result ? *std::move(result) : Value{nullptr, recipe_.where};
  }

 private:
  /// A text with an interpolation: being resolved, resolved, or (nullopt) failed.
  struct Memo {
    bool active = true;
    std::optional<Value> value;
  };
  using Resolved = std::optional<Value>;  ///< nullopt: failed, and the error is recorded

  void error(const Scope& scope, ErrorCode code, std::string message, std::string help = "") {
    errors_.push_back({code, scope.value->where, pointer_of(&scope), std::move(message), std::move(help)});
  }

  /// True when there is too much to go on; said once.
  bool exhausted(const Scope& scope, std::size_t added) {
    cost_ += added;
    if (cost_ <= kMaxCost && depth_ <= kMaxDepth) return false;
    if (!std::exchange(stopped_, true)) {
      const bool deep = depth_ > kMaxDepth;
      error(
          scope, deep ? ErrorCode::kNestingTooDeep : ErrorCode::kAliasBomb,
          deep ? "interpolations lead more than 200 levels deep" : "interpolations expand to more than 100000 values");
    }
    return true;
  }

  Resolved resolve(const Scope& scope) {
    ++depth_;
    Resolved result = stopped_ || exhausted(scope, 1) ? std::nullopt : resolve_within(scope);
    --depth_;
    return result;
  }

  Resolved resolve_within(const Scope& scope) {
    const Value& value = *scope.value;
    if (is_interpolation(value)) return remembered(scope);
    if (!value.list() && !value.map()) return value;
    bool failed = false;
    Value result{nullptr, value.where};
    const auto resolve_child = [&](const Value& below, std::string key) {
      if (!scope.parent && key == "aliases") return below;  // override texts; they are resolved where they are used
      Resolved resolved = resolve({&below, std::move(key), &scope});
      failed = failed || !resolved;
      return resolved ? *std::move(resolved) : Value{nullptr, below.where};
    };
    if (const auto* list = value.list()) {
      Value::List items;
      for (const Value& item : *list) items.push_back(resolve_child(item, std::to_string(items.size())));
      result.data = std::move(items);
    } else {
      Value::Map entries;
      for (const Entry& entry : *value.map()) {
        entries.push_back({entry.key, entry.key_where, resolve_child(entry.value, entry.key), entry.key_type});
      }
      result.data = std::move(entries);
    }
    return failed ? std::nullopt : Resolved(std::move(result));
  }

  /// Each text is resolved once, whoever asks.
  Resolved remembered(const Scope& scope) {
    const auto [found, is_new] = memos_.try_emplace(scope.value);
    Memo& memo = found->second;  // stays put when others are added
    if (!is_new) {
      if (memo.active) {
        report_cycle(scope);
        return std::nullopt;
      }
      if (memo.value && exhausted(scope, cost(*memo.value))) return std::nullopt;
      return memo.value;
    }
    active_.push_back(&scope);
    memo.value = resolve_text(scope);
    memo.active = false;
    active_.pop_back();
    return memo.value;
  }

  void report_cycle(const Scope& scope) {
    const auto start = std::ranges::find(active_, scope.value, &Scope::value);
    std::string chain;
    for (auto step = start; step != active_.end(); ++step) chain += dotted(path_of(*step)) + " -> ";
    const std::string name = dotted(path_of(*start));
    error(**start, ErrorCode::kInterpolationCycle, "'" + name + "' refers to itself: " + chain + name,
          "give one of them a value of its own");
  }

  Resolved resolve_text(const Scope& scope) {
    const std::string& text = *scope.value->text();
    TextPieces pieces;
    try {
      pieces = parse_interpolations(text);
    } catch (const InterpolationSyntaxError& syntax) {
      error(scope, ErrorCode::kInterpolationSyntax, "cannot read " + describe(*scope.value) + ": " + syntax.message,
            "a literal ${ is written \\${");
      return std::nullopt;
    }
    if (pieces.size() == 1) {
      if (const auto* alone = std::get_if<std::unique_ptr<Interpolation>>(&pieces[0])) {
        Resolved value = evaluate(**alone, scope);
        if (value) value->where = scope.value->where;
        return value;
      }
    }
    bool secret = false;
    Resolved joined = join(pieces, scope, secret);
    if (joined && secret) joined->secret_as = text;
    return joined;
  }

  /// The pieces as one text. `secret` is set when one of them is.
  Resolved join(const TextPieces& pieces, const Scope& scope, bool& secret) {
    const auto keeps_item = [](const TextPiece& piece) {
      const auto* inner = std::get_if<std::unique_ptr<Interpolation>>(&piece);
      return inner && is_item(**inner);
    };
    const bool is_read_again = std::ranges::any_of(pieces, keeps_item);
    std::string text;
    bool failed = false;
    for (const TextPiece& piece : pieces) {
      if (const auto* literal = std::get_if<std::string>(&piece)) {
        text += is_read_again ? escaped(*literal) : *literal;
        continue;
      }
      const Interpolation& inner = *std::get<std::unique_ptr<Interpolation>>(piece);
      const Resolved value = evaluate(inner, scope);
      if (!value) {
        failed = true;
      } else if (value->list() || value->map()) {
        error(scope, ErrorCode::kInterpolationSyntax,
              "'" + inner.written + "' is a " + std::string(type_name(*value)) + " and cannot stand inside a text",
              "name one of its values");
        failed = true;
      } else {
        secret = secret || !value->secret_as.empty();
        text += scalar_text(*value);
      }
      if (text.size() > (1u << 20)) {
        error(scope, ErrorCode::kAliasBomb, "the text is longer than a megabyte once its interpolations are resolved");
        return std::nullopt;
      }
    }
    if (failed) return std::nullopt;
    return Value{std::move(text), scope.value->where};
  }

  /// A text that compile() will read again for ${item.x} keeps its literal ${ escaped.
  static std::string escaped(const std::string& literal) {
    std::string result = literal;
    for (std::size_t at = 0; (at = result.find("${", at)) != std::string::npos; at += 3) result.insert(at, 1, '\\');
    return result;
  }

  Resolved evaluate(const Interpolation& interpolation, const Scope& scope) {
    if (is_item(interpolation)) return Value{interpolation.written, scope.value->where};
    bool secret = false;
    Resolved value =
        interpolation.resolver.empty() ? look_up(interpolation, scope, secret) : call(interpolation, scope, secret);
    if (value && secret && value->secret_as.empty()) value->secret_as = interpolation.written;
    return value;
  }

  Resolved look_up(const Interpolation& interpolation, const Scope& scope, bool& secret) {
    std::vector<std::string> keys;
    for (const TextPieces& pieces : interpolation.keys) {
      const auto* inner = std::get_if<std::unique_ptr<Interpolation>>(&pieces[0]);
      if (inner && is_item(**inner)) {
        error(scope, ErrorCode::kInterpolationSyntax,
              "'" + (*inner)->written + "' cannot choose the key of another interpolation",
              "an item is known only after composition");
        return std::nullopt;
      }
      const Resolved key = join(pieces, scope, secret);
      if (!key) return std::nullopt;
      keys.push_back(*key->text());
    }
    const Scope* start = &root_;
    if (interpolation.dots > 0) {
      start = scope.parent;
      for (int i = 1; i < interpolation.dots && start; ++i) start = start->parent;
      if (!start) {
        error(scope, ErrorCode::kInterpolationUnknown, "'" + interpolation.written + "' leads out of the recipe",
              "write one dot for the same mapping, one more for each further out");
        return std::nullopt;
      }
    }
    return walk(interpolation, scope, *start, keys, secret);
  }

  Resolved walk(const Interpolation& interpolation, const Scope& scope, const Scope& start,
                const std::vector<std::string>& keys, bool secret) {
    std::deque<Scope> way = {start};
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Scope& here = way.back();
      if (is_interpolation(*here.value)) return descend(interpolation, scope, here, std::span(keys).subspan(i), secret);
      if (is_mandatory(*here.value)) return std::nullopt;  // reported for itself
      const Value* next = child(*here.value, keys[i]);
      if (!next) return from_schema(interpolation, scope, here, std::span(keys).subspan(i), secret);
      way.push_back({next, keys[i], &here});
    }
    if (is_mandatory(*way.back().value)) return std::nullopt;
    return resolve(way.back());
  }

  /// Goes on inside what an interpolation on the way stands for.
  Resolved descend(const Interpolation& interpolation, const Scope& scope, const Scope& here,
                   std::span<const std::string> keys, bool secret) {
    const Resolved resolved = resolve(here);
    if (!resolved) return std::nullopt;
    const Value* value = &*resolved;
    std::string hidden = value->secret_as;
    for (const std::string& key : keys) {
      const Value* next = child(*value, key);
      if (!next) return unknown(interpolation, scope, *value, key, secret);
      value = next;
      if (hidden.empty()) hidden = value->secret_as;
    }
    Value result = *value;
    result.secret_as = hidden;
    return result;
  }

  Resolved from_schema(const Interpolation& interpolation, const Scope& scope, const Scope& here,
                       std::span<const std::string> keys, bool secret) {
    std::vector<std::string> path = path_of(&here);
    path.insert(path.end(), keys.begin(), keys.end());
    if (declared_ && !here.value->list()) {
      if (std::optional<Value> value = declared_(recipe_, path)) return value;
    }
    return unknown(interpolation, scope, *here.value, keys.front(), secret);
  }

  Resolved unknown(const Interpolation& interpolation, const Scope& scope, const Value& parent, const std::string& key,
                   bool secret) {
    const std::string shown = secret ? "the key" : "'" + key + "'";
    if (parent.map()) {
      std::vector<std::string> names;
      for (const Entry& entry : *parent.map()) names.push_back(entry.key);
      error(scope, ErrorCode::kInterpolationUnknown, "'" + interpolation.written + "': there is no " + shown,
            secret ? "" : did_you_mean(key, names));
    } else if (const auto* list = parent.list()) {
      error(scope, ErrorCode::kInterpolationUnknown,
            "'" + interpolation.written + "': a list of " + std::to_string(list->size()) + " has no item " + shown,
            "items are counted from 0");
    } else {
      error(scope, ErrorCode::kInterpolationUnknown,
            "'" + interpolation.written + "': " + describe(parent) + " is no mapping and has no " + shown);
    }
    return std::nullopt;
  }

  Resolved call(const Interpolation& interpolation, const Scope& scope, bool& secret) {
    if (interpolation.resolver != "oc.env") {
      const std::vector<std::string> known = {"oc.env"};
      const std::string near_name = did_you_mean(interpolation.resolver, known);
      error(scope, ErrorCode::kUnknownResolver,
            "unknown resolver '" + interpolation.resolver + "' in '" + interpolation.written + "'",
            near_name.empty() ? "available: oc.env" : near_name);
      return std::nullopt;
    }
    if (interpolation.arguments.empty() || interpolation.arguments.size() > 2) {
      error(scope, ErrorCode::kInterpolationSyntax,
            "'" + interpolation.written + "': oc.env takes a name and a default",
            "write ${oc.env:NAME} or ${oc.env:NAME,default}");
      return std::nullopt;
    }
    const Resolved name = join(interpolation.arguments[0], scope, secret);
    if (!name) return std::nullopt;
    const bool hides = secret;
    secret = secret || names_a_secret(*name->text());
    if (std::optional<std::string> value = environment_(*name->text())) {
      if (!invalid_utf8(*value)) return Value{*std::move(value), scope.value->where};
      error(scope, ErrorCode::kInvalidUtf8,
            "'" + interpolation.written + "': the environment variable does not hold UTF-8");
      return std::nullopt;
    }
    if (interpolation.arguments.size() == 2) {
      Resolved value = join(interpolation.arguments[1], scope, secret);
      if (value && !interpolation.quoted[1] && *value->text() == "null") value->data = nullptr;
      return value;
    }
    error(scope, ErrorCode::kMissingEnvironment,
          "the environment variable " + (hides ? "of " + interpolation.written : "'" + *name->text() + "'") +
              " is not set",
          "set it, or give a default: ${oc.env:NAME,default}");
    return std::nullopt;
  }

  const Value& recipe_;
  const Scope root_;
  const Declared& declared_;
  const Environment& environment_;
  Diagnostics& errors_;
  std::unordered_map<const Value*, Memo> memos_;
  std::vector<const Scope*> active_;
  std::size_t cost_ = 0;
  int depth_ = 0;
  bool stopped_ = false;
};

}  // namespace

Value resolve_interpolations(const Value& recipe, const Declared& declared, const Environment& environment,
                             Diagnostics& errors) {
  return Resolver(recipe, declared, environment, errors).resolve_all();
}

}  // namespace runner
