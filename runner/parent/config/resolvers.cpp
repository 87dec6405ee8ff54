#include "runner/parent/config/resolvers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <string>
#include <utility>
#include <variant>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/interpolation_parser.h"
#include "runner/parent/config/scalar.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

using Resolved = std::optional<Value>;

Resolved failed(ResolverContext& context, const std::string& message,
                const std::string& help = "") {
  context.fail(ErrorCode::kInterpolationSyntax, message, help);
  return std::nullopt;
}

bool is_string(const Value& value) { return value.text() && value.form != ScalarForm::kBigInteger; }

Resolved environment(ResolverContext& context, std::vector<Value>& arguments) {
  if (!is_string(arguments[0])) return failed(context, "the name of a variable must be a string");
  const std::string& name = *arguments[0].reveal();
  if (auto value = context.environment(name)) {
    if (!invalid_utf8(*value)) return Value{*std::move(value), {}, {}, ScalarForm::kEnvironment};
    context.fail(ErrorCode::kInvalidUtf8, "the environment variable is not valid UTF-8",
                 "set it to UTF-8 text");
    return std::nullopt;
  }
  if (arguments.size() == 1) {
    context.fail(
        ErrorCode::kMissingEnvironment,
        "the environment variable " +
            (arguments[0].secret_as.empty() ? context.shown(arguments[0]) : "that it names") +
            " is not set",
        "set it, or give a default: ${oc.env:NAME,default}");
    return std::nullopt;
  }
  Value& standby = arguments[1];
  if (standby.is_null()) return std::move(standby);
  if (standby.list() || standby.map())
    return failed(context,
                  "the default must be a string, not a " + std::string(type_name(standby)));
  return Value{revealed_text(standby), {}, standby.secret_as, ScalarForm::kEnvironment};
}

Resolved select(ResolverContext& context, std::vector<Value>& arguments) {
  if (!is_string(arguments[0])) return failed(context, "the key must be a string");
  auto selected = context.select(*arguments[0].reveal());
  if (selected.failed) return std::nullopt;
  if (selected.value && (arguments.size() == 1 || !is_mandatory(*selected.value))) {
    return is_mandatory(*selected.value) ? Value{nullptr, {}} : std::move(selected.value);
  }
  return arguments.size() == 2 ? std::move(arguments[1]) : Value{nullptr, {}};
}

Resolved decode(ResolverContext& context, std::vector<Value>& arguments) {
  if (arguments[0].is_null()) return std::move(arguments[0]);
  if (!is_string(arguments[0]))
    return failed(context, "only a string can be decoded, not " + describe(arguments[0]));
  const std::string& text = *arguments[0].reveal();
  try {
    return context.evaluate(parse_written_value(text));
  } catch (const InterpolationSyntaxError& syntax) {
    const std::string why = arguments[0].secret_as.empty() ? ": " + syntax.message : "";
    return failed(context, "cannot read " + context.shown(arguments[0]) + " as a value" + why,
                  "a string with special characters needs its own quotes");
  }
}

/// Clears the locations, which point into a temporary string.
void forget_places(Value& value) {
  value.where = {};
  if (auto* list = value.list()) std::ranges::for_each(*list, forget_places);
  if (auto* map = value.map()) {
    for (Entry& entry : *map) {
      entry.key_where = {};
      forget_places(entry.value);
    }
  }
}

Resolved create(ResolverContext& context, std::vector<Value>& arguments) {
  Value& written = arguments[0];
  if (written.is_null() || written.list() || written.map()) return std::move(written);
  if (!is_string(written))
    return failed(context, "it takes a mapping, a list or YAML text, not " + describe(written));
  const SourceText source{"", *written.reveal()};
  Result<Value> read = read_yaml(source);
  if (!read) {
    const std::string why = written.secret_as.empty() ? ": " + read.errors().front().message : "";
    return failed(context, context.shown(written) + " is not YAML" + why);
  }
  forget_places(*read);
  if (is_string(*read)) return Value{Value::Map{{*read->text(), {}, {nullptr, {}}}}, {}};
  if (!read->list() && !read->map())
    return failed(context, context.shown(written) + " is neither a mapping nor a list");
  return context.evaluate(*read);
}

/// Looks up the mapping named by the only argument.
Resolved mapping(ResolverContext& context, const std::vector<Value>& arguments) {
  if (!is_string(arguments[0]))
    return failed(context, "it takes a key, not " + describe(arguments[0]));
  auto selected = context.select(*arguments[0].reveal());
  if (selected.failed ||
      (selected.value && (selected.value->map() || is_mandatory(*selected.value))))
    return std::move(selected.value);
  if (!selected.value) {
    context.fail(ErrorCode::kInterpolationUnknown, "there is no " + context.shown(arguments[0]),
                 "");
    return std::nullopt;
  }
  return failed(context, context.shown(arguments[0]) + " is a " +
                             std::string(type_name(*selected.value)) + ", not a mapping");
}

Resolved dictionary_keys(ResolverContext& context, std::vector<Value>& arguments) {
  Resolved target = mapping(context, arguments);
  if (!target || !target->map()) return target;
  Value keys{Value::List{}, {}};
  keys.secret_as = target->secret_as;
  for (const Entry& entry : *target->map()) {
    Value key{entry.key, {}};
    const auto typed = entry.key_type == KeyType::kString ? std::nullopt : plain_scalar(entry.key);
    if (typed) key.data = typed->data, key.form = typed->form;
    keys.list()->push_back(std::move(key));
  }
  return keys;
}

Resolved dictionary_values(ResolverContext& context, std::vector<Value>& arguments) {
  Resolved target = mapping(context, arguments);
  if (!target || !target->map()) return target;
  Value values{Value::List{}, {}};
  values.secret_as = target->secret_as;
  for (Entry& entry : *target->map()) values.list()->push_back(std::move(entry.value));
  return values;
}

Resolved deprecated(ResolverContext& context, std::vector<Value>& arguments) {
  const bool has_message = arguments.size() == 2;
  if (!is_string(arguments[0])) return failed(context, "the key must be a string");
  if (has_message && !is_string(arguments[1]))
    return failed(context, "the message must be a string");
  auto selected = context.select(*arguments[0].reveal());
  if (selected.failed) return std::nullopt;
  if (!selected.value) {
    context.fail(ErrorCode::kInterpolationUnknown, "there is no " + context.shown(arguments[0]),
                 "");
    return std::nullopt;
  }
  context.warn(ErrorCode::kDeprecatedKey, "this key is deprecated",
               has_message && arguments[1].secret_as.empty()
                   ? *arguments[1].text()
                   : "use " + context.shown(arguments[0]) + " instead");
  return std::move(selected.value);
}

Resolved now(ResolverContext& context, std::vector<Value>& arguments) {
  constexpr std::size_t kMaxFormat = 200;
  if (!is_string(arguments[0]) || arguments[0].reveal()->size() > kMaxFormat) {
    return failed(context, "the format must be a string of at most 200 bytes");
  }
  const auto time = context.now();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  std::string format = *arguments[0].reveal();
  for (std::size_t at = 0; (at = format.find('%', at)) != format.npos && at + 1 < format.size();
       at += 2) {
    if (format[at + 1] != 'f')
      continue;  // Python's microseconds, which strftime() does not
                 // support
    const auto count =
        std::chrono::duration_cast<std::chrono::microseconds>(time - seconds).count();
    format.replace(at, 2, std::to_string(1'000'000 + count).substr(1));
    at += 4;
  }
  const std::time_t since_epoch = std::chrono::system_clock::to_time_t(seconds);
  std::tm parts{};
  localtime_r(&since_epoch, &parts);
  std::array<char, 4096> text;
  const std::size_t size = std::strftime(text.data(), text.size(), (format + ".").c_str(), &parts);
  if (size == 0) return failed(context, "the time is too long in that format");
  return Value{std::string(text.data(), size - 1), {}};
}

constexpr std::size_t kManyNumbers = 32;

constexpr std::array kResolvers = {
    Resolver{"add", 2, kManyNumbers, "${add:1,2}", add_numbers},
    Resolver{"div", 2, 2, "${div:6,2}", divide_numbers},
    Resolver{"int", 1, 1, "${int:0.9}", integer_part},
    Resolver{"mul", 2, kManyNumbers, "${mul:2,0.5}", multiply_numbers},
    Resolver{"now", 1, 1, "${now:%Y-%m-%d}", now},
    Resolver{"oc.create", 1, 1, "${oc.create:{a: 1}} or ${oc.create:'YAML text'}", create},
    Resolver{"oc.decode", 1, 1, "${oc.decode:text}", decode},
    Resolver{"oc.deprecated", 1, 2,
             "${oc.deprecated:new_key} or ${oc.deprecated:new_key,'message'}", deprecated},
    Resolver{"oc.dict.keys", 1, 1, "${oc.dict.keys:key}", dictionary_keys},
    Resolver{"oc.dict.values", 1, 1, "${oc.dict.values:key}", dictionary_values},
    Resolver{"oc.env", 1, 2, "${oc.env:NAME} or ${oc.env:NAME,default}", environment},
    Resolver{"oc.select", 1, 2, "${oc.select:key} or ${oc.select:key,default}", select},
    Resolver{"sub", 2, 2, "${sub:3,1}", subtract_numbers},
};

}  // namespace

std::span<const Resolver> resolvers() { return kResolvers; }

namespace {

using ArithmeticNumber = std::variant<std::int64_t, double>;

std::nullopt_t cannot_compute(ResolverContext& context, const std::string& message,
                              const std::string& help = "") {
  context.fail(ErrorCode::kInterpolationSyntax, message, help);
  return std::nullopt;
}

std::optional<ArithmeticNumber> number_in_argument(ResolverContext& context,
                                                   const Value& argument) {
  Scalar data = argument.data;
  if (argument.text() && argument.form != ScalarForm::kBigInteger) {
    const auto read = plain_scalar(*argument.reveal());
    if (read && read->form != ScalarForm::kBigInteger) data = read->data;
  }
  if (const auto* integer = std::get_if<std::int64_t>(&data)) return *integer;
  if (const auto* real = std::get_if<double>(&data); real && std::isfinite(*real)) return *real;
  return cannot_compute(
      context, "it takes numbers, not " +
                   (argument.secret_as.empty() ? describe(argument) : std::string("its argument")));
}

double as_double(const ArithmeticNumber& one) {
  return std::visit([](auto value) { return static_cast<double>(value); }, one);
}

std::optional<Value> number_value(ResolverContext& context, const ArithmeticNumber& number) {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return Value{*integer, {}};
  if (std::isfinite(as_double(number))) return Value{as_double(number), {}};
  return cannot_compute(context, "the result is too large");
}

/// Combines the arguments from left to right. `whole` combines integers and returns true if they
/// overflow, like the compiler's builtins; `broken` combines floats.
std::optional<Value> fold_numbers(ResolverContext& context, const std::vector<Value>& arguments,
                                  bool (*whole)(std::int64_t, std::int64_t, std::int64_t*),
                                  double (*broken)(double, double)) {
  std::optional<ArithmeticNumber> total;
  for (const Value& argument : arguments) {
    const auto next = number_in_argument(context, argument);
    if (!next) return std::nullopt;
    if (!total) {
      total = next;
      continue;
    }
    const auto *left = std::get_if<std::int64_t>(&*total),
               *right = std::get_if<std::int64_t>(&*next);
    std::int64_t sum = 0;
    if (!left || !right) total = broken(as_double(*total), as_double(*next));
    else if (whole(*left, *right, &sum))
      return cannot_compute(context, "the result needs more than 64 bits");
    else total = sum;
  }
  return number_value(context, *total);
}

}  // namespace

std::optional<Value> add_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  return fold_numbers(
      context, arguments,
      [](std::int64_t a, std::int64_t b, std::int64_t* sum) {
        return __builtin_add_overflow(a, b, sum);
      },
      [](double a, double b) { return a + b; });
}

std::optional<Value> subtract_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  return fold_numbers(
      context, arguments,
      [](std::int64_t a, std::int64_t b, std::int64_t* sum) {
        return __builtin_sub_overflow(a, b, sum);
      },
      [](double a, double b) { return a - b; });
}

std::optional<Value> multiply_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  return fold_numbers(
      context, arguments,
      [](std::int64_t a, std::int64_t b, std::int64_t* sum) {
        return __builtin_mul_overflow(a, b, sum);
      },
      [](double a, double b) { return a * b; });
}

std::optional<Value> divide_numbers(ResolverContext& context, std::vector<Value>& arguments) {
  const auto left = number_in_argument(context, arguments[0]),
             right = left ? number_in_argument(context, arguments[1]) : std::nullopt;
  if (!right) return std::nullopt;
  if (as_double(*right) == 0) return cannot_compute(context, "it divides by zero");
  const auto *dividend = std::get_if<std::int64_t>(&*left),
             *divisor = std::get_if<std::int64_t>(&*right);
  const bool is_whole = dividend && divisor && *divisor != -1 && *dividend % *divisor == 0;
  if (is_whole) return Value{*dividend / *divisor, {}};
  if (dividend && divisor && *divisor == -1 && *dividend != INT64_MIN) return Value{-*dividend, {}};
  return number_value(context, as_double(*left) / as_double(*right));
}

std::optional<Value> integer_part(ResolverContext& context, std::vector<Value>& arguments) {
  const auto given = number_in_argument(context, arguments[0]);
  if (!given) return std::nullopt;
  if (std::holds_alternative<std::int64_t>(*given))
    return Value{std::get<std::int64_t>(*given), {}};
  const double cut = std::trunc(as_double(*given));
  if (std::abs(cut) >= 0x1p63) return cannot_compute(context, "the result needs more than 64 bits");
  return Value{static_cast<std::int64_t>(cut), {}};
}

}  // namespace runner
