#include "runner/config/interpolation.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>

#include "runner/config/interpolation_parser.h"
#include "runner/config/merge.h"
#include "runner/config/resolvers.h"
#include "runner/config/scalar.h"
#include "runner/config/scope.h"
#include "runner/text/suggest.h"

namespace runner {
namespace {

constexpr int kDeepestReference = 200;
constexpr std::size_t kMaxCost = 100'000;
constexpr std::size_t kMaxCompared = 1'000'000;  // names looked through for near ones

using Resolved = std::optional<Value>;  // nullopt: failed, and the error is recorded

/// What a copy of `value` costs: its values, and a little for long texts.
std::size_t cost(const Value& value) {
  std::size_t total = 1 + value.secret_as.size() / 256;
  if (const auto* text = value.text()) total += text->size() / 256;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) total += cost(item);
  }
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) total += cost(entry.value);
  }
  return total;
}

/// Calls `change` with `value` and everything in it.
void for_all(Value& value, const std::function<void(Value&)>& change) {
  change(value);
  if (auto* list = value.list()) {
    for (Value& item : *list) for_all(item, change);
  }
  if (auto* map = value.map()) {
    for (Entry& entry : *map) for_all(entry.value, change);
  }
}

/// An interpolation as messages show it.
std::string quoted_reference(const Interpolation& interpolation) {
  constexpr std::size_t kMaxShown = 200;
  if (interpolation.written.size() <= kMaxShown) return "'" + interpolation.written + "'";
  return describe({interpolation.written, {}});
}

bool keeps_item(const TextPieces& pieces) {
  return std::ranges::any_of(pieces, [](const TextPiece& piece) {
    const auto* inner = std::get_if<std::unique_ptr<Interpolation>>(&piece);
    return inner && is_item(**inner);
  });
}

/// A text that gives `literal` when its interpolations are resolved.
std::string escaped(const std::string& literal) {
  std::string result;
  std::size_t backslashes = 0;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal.compare(i, 2, "${") == 0) result.append(backslashes + 1, '\\');
    backslashes = literal[i] == '\\' ? backslashes + 1 : 0;
    result += literal[i];
  }
  return result;
}

/// Does `text` hold ${item.x}, and nothing that is wrong?
bool holds_item(const std::string& text) {
  try {
    return keeps_item(parse_interpolations(text));
  } catch (const InterpolationSyntaxError&) {
    return false;
  }
}

class Resolution {
 public:
  Resolution(const Value& document, const InterpolationSources& sources, Diagnostics& found)
      : document_(document), root_{&document, "", nullptr}, sources_(sources), found_(found) {}

  Value resolve_all() {
    Resolved result = resolve(root_);
    return result ? *std::move(result) : Value{nullptr, document_.where};
  }

 private:
  class Context;

  /// A text with an interpolation: being resolved, resolved, or (nullopt) failed.
  struct Memo {
    bool active = true;
    Resolved value;
  };

  /// What a key named: a value, or nothing; and then what lacked it, null when the key leads out of the document.
  struct Found {
    Resolved value;
    bool failed = false;
    bool is_secret = false;  ///< a part of the key was one, or this is a part of one
    const Value* parent = nullptr;
    std::string missing_key = {};
  };

  void error(const Scope& scope, ErrorCode code, std::string message, std::string help = "") {
    found_.push_back({code, scope.value->where, pointer_of(scope), std::move(message), std::move(help)});
  }

  /// True when there is too much to continue; said once.
  bool exhausted(const Scope& scope, std::size_t added) {
    cost_ += added;
    if (cost_ <= kMaxCost && depth_ <= kDeepestReference) return false;
    if (!std::exchange(stopped_, true)) {
      if (depth_ > kDeepestReference) {
        error(scope, ErrorCode::kNestingTooDeep, "interpolations are more than 200 levels deep");
      } else {
        error(scope, ErrorCode::kAliasBomb, "interpolations expand to more than 100000 values");
      }
    }
    return true;
  }

  Resolved resolve(const Scope& scope) {
    ++depth_;
    Resolved result = stopped_ || exhausted(scope, 0) ? std::nullopt : resolve_within(scope);
    --depth_;
    return result;
  }

  Resolved resolve_within(const Scope& scope) {
    const Value& value = *scope.value;
    if (is_interpolation(value)) {
      const Value* resolved = remembered(scope);
      return resolved ? Resolved(*resolved) : std::nullopt;
    }
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

  /// Each text is resolved once, whoever asks. Null: failed.
  const Value* remembered(const Scope& scope) {
    const auto [entry, is_new] = memos_.try_emplace(scope.value);
    Memo& memo = entry->second;  // stays put when others are added
    if (is_new) {
      active_.push_back(&scope);
      memo.value = resolve_text(*scope.value, scope);
      if (memo.value) for_all(*memo.value, [](Value& part) { part.is_default = false; });  // somebody wrote this
      memo.active = false;
      active_.pop_back();
    } else if (memo.active) {
      report_cycle(scope);
    }
    return memo.value ? &*memo.value : nullptr;
  }

  void report_cycle(const Scope& scope) {
    const auto start = std::ranges::find(active_, scope.value, &Scope::value);
    std::string chain;
    for (auto step = start; step != active_.end(); ++step) chain += dotted_path(**step) + " -> ";
    const std::string name = dotted_path(**start);
    error(**start, ErrorCode::kInterpolationCycle, "'" + name + "' refers to itself: " + chain + name,
          "give one of them a value of its own");
  }

  /// The value of a text, which stands at `scope`, or came into being there as the argument of a resolver.
  Resolved resolve_text(const Value& value, const Scope& scope, bool is_argument = false) {
    const std::string& text = *value.text();
    TextPieces pieces;
    try {
      pieces = parse_interpolations(text);
    } catch (const InterpolationSyntaxError& syntax) {
      error(scope, ErrorCode::kInterpolationSyntax, "cannot read " + describe(value) + ": " + syntax.message,
            syntax.help);
      return std::nullopt;
    }
    if (is_argument && refuses_item(pieces, scope, "be the argument of a resolver")) return std::nullopt;
    const bool stays_text = is_argument && value.form != ScalarForm::kPlain;  // it was in quotes
    if (pieces.size() == 1 && !stays_text) {
      if (const auto* alone = std::get_if<std::unique_ptr<Interpolation>>(&pieces[0])) {
        Resolved result = evaluate(**alone, scope);
        if (result) result->where = scope.value->where;
        return result;
      }
    }
    return join(pieces, scope, text);
  }

  /// The pieces as one text, `written`; `???` when one of them is.
  Resolved join(const TextPieces& pieces, const Scope& scope, const std::string& written) {
    constexpr std::size_t kMaxText = 1u << 20;
    Value result{std::string(), scope.value->where};
    std::string& text = std::get<std::string>(result.data);
    std::string reread;  // the same where compile() reads it again, for ${item.x}
    bool is_read_again = false;
    const auto add = [&](const std::string& part, bool has_item) {
      text += part;
      reread += has_item ? part : escaped(part);
      is_read_again = is_read_again || has_item;
    };
    bool failed = false, is_missing = false;
    for (const TextPiece& piece : pieces) {
      if (const auto* literal = std::get_if<std::string>(&piece)) {
        add(*literal, false);
        continue;
      }
      const Interpolation& inner = *std::get<std::unique_ptr<Interpolation>>(piece);
      const Resolved value = evaluate(inner, scope);
      if (!value) {
        failed = true;
      } else if (value->list() || value->map()) {
        error(scope, ErrorCode::kInterpolationSyntax,
              quoted_reference(inner) + " is a " + std::string(type_name(*value)) + " and cannot be inside a text",
              "name one of its values");
        failed = true;
      } else {
        is_missing = is_missing || is_mandatory(*value);
        if (!value->secret_as.empty()) result.secret_as = written;
        add(scalar_text(*value), is_interpolation(*value) && holds_item(*value->text()));
      }
      if (text.size() > kMaxText) {
        error(scope, ErrorCode::kAliasBomb, "the text is longer than a megabyte once its interpolations are resolved");
        return std::nullopt;
      }
    }
    if (is_read_again) text = std::move(reread);
    if (is_missing) text = "???";
    return failed || exhausted(scope, cost(result)) ? std::nullopt : Resolved(std::move(result));
  }

  Resolved evaluate(const Interpolation& interpolation, const Scope& scope) {
    if (is_item(interpolation)) return Value{interpolation.written, scope.value->where};
    Resolved value = interpolation.resolver.empty() ? look_up(interpolation, scope) : call(interpolation, scope);
    if (!value || exhausted(scope, cost(*value))) return std::nullopt;
    return value;
  }

  /// The error of a text that must be known now and holds ${item.x}.
  bool refuses_item(const TextPieces& pieces, const Scope& scope, const std::string& use) {
    if (!keeps_item(pieces)) return false;
    for (const TextPiece& piece : pieces) {
      const auto* inner = std::get_if<std::unique_ptr<Interpolation>>(&piece);
      if (!inner || !is_item(**inner)) continue;
      error(scope, ErrorCode::kInterpolationSyntax, quoted_reference(**inner) + " cannot " + use,
            "an item is known only after composition");
    }
    return true;
  }

  Resolved look_up(const Interpolation& interpolation, const Scope& scope) {
    Found found = find(interpolation, scope);
    if (!found.value && !found.failed) report_unknown(interpolation, scope, found);
    return found.is_secret ? hidden(std::move(found.value), interpolation, scope) : std::move(found.value);
  }

  /// `value`, all of it a secret that is shown as `interpolation`.
  Resolved hidden(Resolved value, const Interpolation& interpolation, const Scope& scope) {
    if (!value || exhausted(scope, cost(*value) * (interpolation.written.size() / 256))) return std::nullopt;
    for_all(*value, [&](Value& part) { part.secret_as = interpolation.written; });
    return value;
  }

  /// What the interpolation's key names.
  Found find(const Interpolation& interpolation, const Scope& scope) {
    bool is_secret = false;
    std::vector<std::string> keys;
    for (const TextPieces& pieces : interpolation.keys) {
      if (refuses_item(pieces, scope, "choose the key of another interpolation")) return {.failed = true};
      Resolved key = join(pieces, scope, interpolation.written);
      if (!key) return {.failed = true};
      if (is_mandatory(*key)) return {std::move(key)};
      is_secret = is_secret || !key->secret_as.empty();
      keys.push_back(*key->text());
    }
    const Scope* start = &root_;
    if (interpolation.dots > 0) {
      start = scope.parent;
      for (int i = 1; i < interpolation.dots && start; ++i) start = start->parent;
      if (!start) return {};
    }
    Found found = walk(*start, keys);
    found.is_secret = found.is_secret || is_secret;
    return found;
  }

  Found walk(const Scope& start, const std::vector<std::string>& keys) {
    std::deque<Scope> way = {start};
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Scope& here = way.back();
      if (is_interpolation(*here.value)) {
        const Value* resolved = stands_for(here);
        if (!resolved) return {.failed = true};
        return descend(*resolved, std::span(keys).subspan(i));
      }
      if (is_mandatory(*here.value)) return {*here.value};
      const Value* next = children_.find(*here.value, keys[i]);
      if (!next) return declared(here, std::span(keys).subspan(i));
      way.push_back({next, keys[i], &here});
    }
    Resolved value = resolve(way.back());
    const bool failed = !value;
    return {.value = std::move(value), .failed = failed};
  }

  /// remembered(), within the bound on depth.
  const Value* stands_for(const Scope& scope) {
    ++depth_;
    const Value* value = stopped_ || exhausted(scope, 0) ? nullptr : remembered(scope);
    --depth_;
    return value;
  }

  /// Continues inside the value of an interpolation on the way.
  Found descend(const Value& resolved, std::span<const std::string> keys) {
    const Value* value = &resolved;
    for (const std::string& key : keys) {
      if (is_mandatory(*value)) return {*value};
      const Value* next = children_.find(*value, key);
      if (!next) return {.is_secret = !resolved.secret_as.empty(), .parent = value, .missing_key = key};
      value = next;
    }
    return {.value = *value, .is_secret = !resolved.secret_as.empty()};
  }

  Found declared(const Scope& here, std::span<const std::string> keys) {
    std::vector<std::string> path = path_of(here);
    path.insert(path.end(), keys.begin(), keys.end());
    Found result{.parent = here.value, .missing_key = keys.front()};
    if (sources_.declared && !here.value->list()) result.value = sources_.declared(document_, path);
    return result;
  }

  void report_unknown(const Interpolation& interpolation, const Scope& scope, const Found& found) {
    if (!found.parent) {
      error(scope, ErrorCode::kInterpolationUnknown, quoted_reference(interpolation) + " leads out of the recipe",
            "write one dot for the same mapping, one more for each further out");
      return;
    }
    const std::string shown = found.is_secret ? "the key" : "'" + found.missing_key + "'";
    std::string message = quoted_reference(interpolation) + ": ", help;
    if (const auto* map = found.parent->map()) {
      message += "there is no " + shown;
      std::vector<std::string> names;
      if (!found.is_secret && (compared_ += map->size()) <= kMaxCompared) {
        for (const Entry& entry : *map) names.push_back(entry.key);
      }
      help = did_you_mean(found.missing_key, names);
    } else if (const auto* list = found.parent->list()) {
      message += "a list of " + std::to_string(list->size()) + " has no item " + shown;
      help = "items are counted from 0";
    } else {
      message += describe(*found.parent) + " is not a mapping and has no " + shown;
    }
    error(scope, ErrorCode::kInterpolationUnknown, std::move(message), std::move(help));
  }

  /// `written` with the interpolations in its texts resolved; it is no part of the document. A text in quotes stays
  /// one.
  Resolved resolve_written(const Value& written, const Scope& scope) {
    if (stopped_ || exhausted(scope, 1)) return std::nullopt;
    if (is_interpolation(written)) {
      ++depth_;
      Resolved result = stopped_ || exhausted(scope, 0) ? std::nullopt : resolve_text(written, scope, true);
      --depth_;
      return result;
    }
    Value result = written;
    if (result.form != ScalarForm::kBigInteger) result.form = ScalarForm::kPlain;
    result.where = scope.value->where;
    bool failed = false;
    const auto resolve_part = [&](Value& part) {
      Resolved resolved = resolve_written(part, scope);
      failed = failed || !resolved;
      if (resolved) part = *std::move(resolved);
    };
    if (auto* list = result.list()) std::ranges::for_each(*list, resolve_part);
    if (auto* map = result.map()) {
      for (Entry& entry : *map) resolve_part(entry.value);
    }
    return failed ? std::nullopt : Resolved(std::move(result));
  }

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

/// One call of a resolver.
class Resolution::Context final : public ResolverContext {
 public:
  Context(Resolution& resolution, const Interpolation& interpolation, const Scope& scope)
      : resolution_(resolution), interpolation_(interpolation), scope_(scope) {}

  std::optional<std::string> environment(const std::string& name) const override {
    return resolution_.sources_.environment(name);
  }

  std::chrono::system_clock::time_point now() const override { return resolution_.sources_.now; }

  Selected select(const std::string& key) override {
    try {
      Interpolation parsed = parse_interpolation_key(key);
      parsed.written = interpolation_.written;
      Found found = resolution_.find(parsed, scope_);
      return {std::move(found.value), found.failed};
    } catch (const InterpolationSyntaxError&) {
      fail(ErrorCode::kInterpolationSyntax, "its argument is not a key",
           "a key is a.b, a[0] or, from this mapping, .x");
      return {.failed = true};
    }
  }

  std::optional<Value> evaluate(const Value& written) override {
    const std::size_t before = resolution_.found_.size();
    Resolved value = resolution_.resolve_written(written, scope_);
    if (!is_secret_) return value;
    if (resolution_.found_.size() > before) {  // what is said quotes the secret
      resolution_.found_.resize(before);
      fail(ErrorCode::kInterpolationSyntax, "its argument holds an interpolation with a mistake", "");
    }
    return value;
  }

  /// From here on what is evaluated comes from a secret.
  void set_secret() { is_secret_ = true; }

  void fail(ErrorCode code, const std::string& message, const std::string& help) override {
    resolution_.error(scope_, code, quoted_reference(interpolation_) + ": " + message, help);
  }

  void warn(ErrorCode code, const std::string& message, const std::string& help) override {
    fail(code, message, help);
    resolution_.found_.back().severity = Severity::kWarning;
  }

  std::string shown(const Value& text) const override {
    constexpr std::size_t kMaxShown = 60;
    if (!text.secret_as.empty()) return "its argument";
    return text.text()->size() > kMaxShown ? describe(text) : "'" + *text.text() + "'";
  }

 private:
  Resolution& resolution_;
  const Interpolation& interpolation_;
  const Scope& scope_;
  bool is_secret_ = false;
};

Resolved Resolution::call(const Interpolation& interpolation, const Scope& scope) {
  const auto resolver = std::ranges::find(resolvers(), interpolation.resolver, &Resolver::name);
  if (resolver == resolvers().end()) {
    std::vector<std::string> known;
    std::string available = "available:";
    for (const Resolver& each : resolvers()) {
      known.emplace_back(each.name);
      available += " " + known.back();
    }
    const std::string near_name = did_you_mean(interpolation.resolver, known);
    error(scope, ErrorCode::kUnknownResolver,
          "unknown resolver '" + interpolation.resolver + "' in " + quoted_reference(interpolation),
          near_name.empty() ? available : near_name);
    return std::nullopt;
  }
  Context context(*this, interpolation, scope);
  const std::size_t count = interpolation.arguments.size();
  if (count < resolver->least || count > resolver->most) {
    const std::string takes = resolver->most == 1 ? "one argument" : "one or two arguments";
    context.fail(ErrorCode::kInterpolationSyntax,
                 std::string(resolver->name) + " takes " + takes + ", not " + std::to_string(count),
                 "write " + std::string(resolver->usage));
    return std::nullopt;
  }
  std::vector<Value> arguments;
  bool is_secret = false;
  for (const Value& written : interpolation.arguments) {
    Resolved argument = context.evaluate(written);
    if (!argument) return std::nullopt;
    if (is_mandatory(*argument)) return argument;
    for_all(*argument, [&](const Value& part) { is_secret = is_secret || !part.secret_as.empty(); });
    arguments.push_back(*std::move(argument));
  }
  if (resolver->name == "oc.env" && arguments[0].text()) is_secret = is_secret || names_a_secret(*arguments[0].text());
  if (is_secret) context.set_secret();
  Resolved result = resolver->call(context, arguments);
  is_secret = is_secret || (result && !result->secret_as.empty());
  return is_secret ? hidden(std::move(result), interpolation, scope) : result;
}

}  // namespace

Value resolve_interpolations(const Value& document, const InterpolationSources& sources, Diagnostics& found) {
  return Resolution(document, sources, found).resolve_all();
}

Value as_unresolved(Value resolved) {
  for_all(resolved, [](Value& part) {
    if (is_interpolation(part) && !holds_item(*part.text())) part.data = escaped(*part.text());
  });
  return resolved;
}

}  // namespace runner
