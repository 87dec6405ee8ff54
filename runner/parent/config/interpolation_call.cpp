#include <algorithm>
#include <utility>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/interpolation_parser.h"
#include "runner/parent/config/resolvers.h"
#include "runner/parent/config/secret.h"
#include "runner/shared/text/suggest.h"

namespace runner {

/// One call to a resolver.
class InterpolationPass::Call final : public ResolverContext {
 public:
  Call(InterpolationPass& pass, const Interpolation& interpolation, const Scope& scope)
      : pass_(pass), interpolation_(interpolation), scope_(scope) {}

  std::optional<std::string> environment(const std::string& name) const override {
    return pass_.sources_.environment(name);
  }

  std::chrono::system_clock::time_point now() const override { return pass_.sources_.now; }

  Selection select(const std::string& key) override {
    try {
      Interpolation parsed = parse_interpolation_key(key);
      parsed.written = interpolation_.written;
      Found found = pass_.find(parsed, scope_);
      return {std::move(found.value), found.failed};
    } catch (const InterpolationSyntaxError&) {
      fail(ErrorCode::kInterpolationSyntax, "its argument is not a key",
           "write a key as a.b or a[0], or as .x for a key of this mapping");
      return {.failed = true};
    }
  }

  std::optional<Value> evaluate(const Value& written) override {
    const std::size_t before = pass_.found_.size();
    Resolved value = pass_.resolve_written(written, scope_);
    if (!is_secret_) return value;
    if (pass_.found_.size() > before) {  // the messages would quote the secret
      pass_.found_.resize(before);
      fail(ErrorCode::kInterpolationSyntax, "its argument contains an invalid interpolation", "");
    }
    return value;
  }

  /// Marks all values evaluated from now on as secret.
  void set_secret() { is_secret_ = true; }

  void fail(ErrorCode code, const std::string& message, const std::string& help) override {
    pass_.error(scope_, code, quoted_reference(interpolation_) + ": " + message, help);
  }

  void warn(ErrorCode code, const std::string& message, const std::string& help) override {
    fail(code, message, help);
    pass_.found_.back().severity = Severity::kWarning;
  }

  std::string shown(const Value& text) const override {
    constexpr std::size_t kMaxShown = 60;
    if (!text.secret_as.empty()) return "its argument";
    return text.text()->size() > kMaxShown ? describe(text) : "'" + *text.text() + "'";
  }

 private:
  InterpolationPass& pass_;
  const Interpolation& interpolation_;
  const Scope& scope_;
  bool is_secret_ = false;
};

InterpolationPass::Resolved InterpolationPass::call(const Interpolation& interpolation,
                                                    const Scope& scope) {
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
  Call context(*this, interpolation, scope);
  const std::size_t count = interpolation.arguments.size();
  if (count < resolver->least || count > resolver->most) {
    const std::string takes = resolver->most == 1    ? "one argument"
                              : resolver->least == 1 ? "one or two arguments"
                              : resolver->most == 2  ? "two arguments"
                                                     : "two or more arguments";
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
    for_all(*argument,
            [&](const Value& part) { is_secret = is_secret || !part.secret_as.empty(); });
    arguments.push_back(*std::move(argument));
  }
  if (resolver->name == "oc.env" && arguments[0].text())
    is_secret = is_secret || names_a_secret(*arguments[0].text());
  if (is_secret) context.set_secret();
  Resolved result = resolver->call(context, arguments);
  is_secret = is_secret || (result && !result->secret_as.empty());
  return is_secret ? hidden(std::move(result), interpolation, scope) : result;
}

}  // namespace runner
