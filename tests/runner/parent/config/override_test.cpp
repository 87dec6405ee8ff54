#include "runner/parent/config/override.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

std::string errors_of(const std::string& text) {
  Sources sources;
  const auto result = parse_override(sources.add("override 1", text));
  if (result) return "accepted";
  std::ostringstream out;
  for (const Diagnostic& diagnostic : result.errors()) print(out, diagnostic);
  return out.str();
}

Value value_of(const std::string& text) {
  Sources sources;
  const auto result = parse_override(sources.add("override 1", text));
  return result && result->value ? *result->value : Value{std::string("REFUSED"), {}};
}

Override override_of(const std::string& text) {
  static Sources sources;
  const auto result = parse_override(sources.add("override 1", text));
  EXPECT_TRUE(result) << text << "\n" << errors_of(text);
  return result ? *result : Override{};
}

std::vector<std::string> texts(const std::vector<Value>& values) {
  std::vector<std::string> result;
  for (const Value& value : values) result.push_back(element_text(value));
  return result;
}

TEST(Override, SyntaxErrorHasCaretAndCorrectedArgument) {
  EXPECT_EQ(errors_of("train.note=a~b"),
            "override 1:1:13: error[E0202]: unexpected '~'\n"
            "  1 | train.note=a~b\n"
            "    |             ^\n"
            "  help: put the value in quotes: 'train.note=\"a~b\"'\n");
}

TEST(Override, UnclosedListIsReported) {
  EXPECT_EQ(errors_of("lr=[1,2"),
            "override 1:1:8: error[E0202]: the value ends unexpectedly\n"
            "  1 | lr=[1,2\n"
            "    |        ^\n"
            "  help: close what was opened, or remove the comma at the end\n");
}

TEST(Override, UnclosedQuoteIsReported) {
  EXPECT_EQ(errors_of("a=it's"),
            "override 1:1:5: error[E0202]: the quote ' is never closed\n"
            "  1 | a=it's\n"
            "    |     ^\n"
            "  help: close it; the character itself is written \\' inside quotes\n");
}

TEST(Override, KeyWithoutValueIsRejected) {
  EXPECT_EQ(errors_of("train.epochs"),
            "override 1:1:13: error[E0202]: 'train.epochs' has no value\n"
            "  1 | train.epochs\n"
            "    |             ^\n"
            "  help: write train.epochs=VALUE\n");
}

TEST(Override, EmptyKeyIsRejected) {
  EXPECT_THAT(errors_of("=1"), testing::HasSubstr("error[E0202]: the override has no key"));
  EXPECT_THAT(errors_of("~"), testing::HasSubstr("error[E0202]: the override has no key"));
}

TEST(Override, CommaListIsASimpleChoice) {
  const Override read = override_of("+lr@a.b=0.1,'x',[1]");
  ASSERT_TRUE(read.sweep);
  EXPECT_EQ(read.sweep->kind, Sweep::Kind::kSimpleChoice);
  EXPECT_EQ(texts(read.sweep->choices), (std::vector<std::string>{"0.1", "'x'", "[1]"}));
  EXPECT_FALSE(read.value);
  EXPECT_EQ(read.kind, OverrideKind::kAdd);
  EXPECT_EQ(read.package, "a.b");
}

TEST(Override, SingleRunRejectsSweepsWithHydrasHints) {
  const auto said = [](const std::string& text) {
    Sources sources;
    const auto read = parse_override(sources.add("override 1", text));
    std::ostringstream out;
    print(out, needs_multirun(*read));
    return out.str();
  };
  EXPECT_EQ(
      said("lr=1,2"),
      "override 1:1:4: error[E0217]: 'lr=1,2' lists several values, but this is a single run\n"
      "  1 | lr=1,2\n"
      "    |    ^\n"
      "  help: for a list write lr=[1,2], for a string lr=\\'1,2\\'; for several runs, use `retort "
      "sweep`\n");
  EXPECT_THAT(said("lr=range(1,3)"),
              testing::HasSubstr("help: for several runs, use `retort sweep`"));
}

TEST(Override, NestedSweepIsRejected) {
  for (const char* text :
       {"a=[choice(1,2)]", "a={b:range(3)}", "a=choice(1,2),3", "a=choice(1,int(1,2))",
        "a=append(choice(1,2))", "n=zip(a=[glob(*)])", "a=1,zip(b=[1])"}) {
    EXPECT_THAT(errors_of(text), testing::HasSubstr("error[E0231]")) << text;
  }
  EXPECT_EQ(
      errors_of("a=[1,range(3)]"),
      "override 1:1:6: error[E0231]: a range cannot be inside a list, a mapping or another sweep\n"
      "  1 | a=[1,range(3)]\n"
      "    |      ^\n"
      "  help: sweep over the whole value: key=[1,2],[3,4]\n");
}

TEST(Override, UnknownFunctionSuggestsNearest) {
  EXPECT_EQ(errors_of("lr=rnage(3)"),
            "override 1:1:4: error[E0230]: unknown function 'rnage'\n"
            "  1 | lr=rnage(3)\n"
            "    |    ^\n"
            "  help: did you mean 'range'?\n");
  EXPECT_THAT(errors_of("a=extend_list(1)"),
              testing::HasSubstr("help: append() adds to a list: key=append(1,2)"));
  EXPECT_THAT(errors_of("a=json_str(1)"),
              testing::HasSubstr("help: write the JSON text itself in quotes"));
  EXPECT_THAT(errors_of("a=f(x)"), testing::HasSubstr("put it in quotes"));
}

TEST(Override, ArgumentsAreChecked) {
  const auto said = [](const std::string& text) {
    const std::string all = errors_of(text);
    return all.substr(0, all.find('\n'));
  };
  EXPECT_EQ(said("a=range(1,'3')"),
            "override 1:1:11: error[E0230]: range() takes numbers, but this is \"3\"");
  EXPECT_EQ(said("a=range(1,2,3,4)"),
            "override 1:1:15: error[E0230]: range() takes at most 3 arguments");
  EXPECT_EQ(said("a=range(stop=3)"),
            "override 1:1:3: error[E0230]: range() needs the argument 'start'");
  EXPECT_EQ(said("a=range(1,start=3)"),
            "override 1:1:17: error[E0230]: range() is given 'start' twice");
  EXPECT_EQ(said("a=choice()"), "override 1:1:3: error[E0230]: choice() needs at least one value");
  EXPECT_EQ(said("a=choice(null)"), "override 1:1:10: error[E0230]: choice() does not accept null");
  EXPECT_EQ(said("a=sort(b,1)"), "override 1:1:10: error[E0230]: 1 and \"b\" cannot be ordered");
  EXPECT_EQ(said("a=sort(1,2,reverse=1)"),
            "override 1:1:20: error[E0230]: reverse= takes true or false, but this is 1");
  EXPECT_EQ(said("a=tag(1,choice(2))"),
            "override 1:1:7: error[E0230]: tags are strings, but this is 1");
  EXPECT_EQ(said("a=shuffle(interval(1,2))"),
            "override 1:1:11: error[E0230]: shuffle() takes a choice or a range, but this is an "
            "interval");
  EXPECT_EQ(said("a=insert(1)"),
            "override 1:1:3: error[E0230]: insert() needs an index and values");
  EXPECT_EQ(said("+a=append(1)"),
            "override 1:1:1: error[E0202]: '+' cannot be combined with a function that changes the "
            "value");
}

TEST(Override, NamedArgumentIsSuggested) {
  EXPECT_THAT(errors_of("a=range(1,stpo=3)"), testing::HasSubstr("range() has no argument 'stpo'"));
  EXPECT_THAT(errors_of("a=range(1,stpo=3)"), testing::HasSubstr("did you mean 'stop'?"));
  EXPECT_THAT(errors_of("a=range(start=1,3)"),
              testing::HasSubstr("a positional argument follows a named one"));
}

TEST(Override, EditFunctionsAreParsed) {
  const Override added = override_of("layers=append(4,'5')");
  ASSERT_TRUE(added.edit);
  EXPECT_EQ(added.edit->kind, Edit::Kind::kAppend);
  EXPECT_EQ(added.edit->values.size(), 2u);
  const Override inserted = override_of("layers=insert(-1,7)");
  EXPECT_EQ(inserted.edit->kind, Edit::Kind::kInsert);
  EXPECT_EQ(inserted.edit->index, -1);
  EXPECT_EQ(override_of("layers=remove_at(0)").edit->kind, Edit::Kind::kRemoveAt);
  EXPECT_EQ(override_of("a=replace({b: 1})").edit->kind, Edit::Kind::kReplace);
  EXPECT_EQ(override_text(added), "layers=append(4,'5')");
}

TEST(Override, ZipSetsSeveralKeysPerRow) {
  const Override read = override_of("size=zip(model=[a,b],+train.lr@x=[0.1,0.2])");
  ASSERT_TRUE(read.sweep);
  ASSERT_EQ(read.sweep->rows.size(), 2u);
  EXPECT_EQ(override_text(read.sweep->rows[1][0]), "model=b");
  EXPECT_EQ(override_text(read.sweep->rows[1][1]), "+train.lr@x=0.2");
  EXPECT_TRUE(override_of("n=shuffle(zip(a=[1,2]))").sweep->shuffle);
  EXPECT_THAT(errors_of("n=zip(a=[1,2],b=[1])"),
              testing::HasSubstr("'b' has 1 values and 'a' has 2"));
  EXPECT_THAT(errors_of("n=zip(a=1)"), testing::HasSubstr("the values of 'a' are not a list"));
  EXPECT_THAT(errors_of("+n=zip(a=[1])"), testing::HasSubstr("zip() needs a name before it"));
}

TEST(Override, CastsConvertAsPythonDoes) {
  const auto cast = [](const std::string& text) { return element_text(value_of("a=" + text)); };
  EXPECT_EQ(cast("int(-3.9)"), "-3");
  EXPECT_EQ(cast("int(' 1_0 ')"), "10");
  EXPECT_EQ(cast("int(1e20)"), "100000000000000000000");
  EXPECT_EQ(cast("float('1e3')"), "1000.0");
  EXPECT_EQ(cast("str(1e-7)"), "'1e-07'");
  EXPECT_EQ(cast("bool(null)"), "False");
  EXPECT_EQ(cast("int({a:[1.5,true]})"), "{a:[1,1]}");
  EXPECT_THAT(errors_of("a=int('3.5')"), testing::HasSubstr("int() cannot convert \"3.5\""));
  EXPECT_THAT(errors_of("a=int(inf)"), testing::HasSubstr("int() cannot convert inf"));
  EXPECT_THAT(errors_of("a=bool(yes)"),
              testing::HasSubstr("the only strings it accepts are true and false"));
  EXPECT_EQ(texts(override_of("a=int(choice(1.5,2.5))").sweep->choices),
            (std::vector<std::string>{"1", "2"}));
}

TEST(Override, IntegerBeyond64BitsKeepsItsDigits) {
  EXPECT_TRUE(
      same_data(value_of("a=9223372036854775807"), {std::int64_t{9223372036854775807}, {}}));
  const Value big = value_of("a=-9_223372036854775809");
  EXPECT_EQ(big.form, ScalarForm::kBigInteger);
  EXPECT_EQ(element_text(big), "-9223372036854775809");
}

TEST(Override, MappingsKeepTheTypesOfTheirKeys) {
  const Value value = value_of("a={1:a,true:b,null:c,1.5:d,a b:e}");
  std::vector<KeyType> types;
  for (const Entry& entry : *value.map()) types.push_back(entry.key_type);
  // In Python, 1 and True are the same key.
  EXPECT_EQ(types,
            (std::vector{KeyType::kInteger, KeyType::kNull, KeyType::kFloat, KeyType::kString}));
  EXPECT_EQ(element_text(value), "{1:b,null:c,1.5:d,a\\ b:e}");
}

TEST(Override, DeepNestingIsRejectedWithoutCrashing) {
  EXPECT_THAT(errors_of("a=" + std::string(100'000, '[')), testing::HasSubstr("error[E0108]"));
}

TEST(Override, DeepKeyIsRejected) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_THAT(errors_of("+" + key + "=1"),
              testing::HasSubstr("error[E0108]: the key is more than 64 levels deep"));
  EXPECT_THAT(errors_of("+db@" + key + "=x"), testing::HasSubstr("error[E0108]"));
}

TEST(Override, InvalidUtf8IsRejected) {
  EXPECT_THAT(errors_of("a=\xff"), testing::HasSubstr("error[E0107]"));
}

TEST(Override, AcceptsUnicodeNestedInterpolationsAndTrailingBlanks) {
  EXPECT_TRUE(same_data(value_of("a=größe 1"), {std::string("größe 1"), {}}));
  EXPECT_TRUE(same_data(value_of("a=${b.${c}}/x"), {std::string("${b.${c}}/x"), {}}));
  EXPECT_TRUE(same_data(value_of("a='x' "), {std::string("x"), {}}));
}

TEST(Override, ValuesKnowTheirColumn) {
  const Value value = value_of("a.b=[1, {c: 2}]");
  EXPECT_EQ(value.where.column, 5);
  EXPECT_EQ((*value.list())[1].where.column, 9);
  EXPECT_EQ((*value.list())[1].map()->front().key_where.column, 10);
  EXPECT_EQ((*value.list())[1].find("c")->where.column, 13);
}

TEST(Override, LastOfDuplicateKeysWins) {
  EXPECT_TRUE(same_data(*value_of("a={b:1,b:2}").find("b"), {std::int64_t{2}, {}}));
}

TEST(Override, WrittenStringsReadBackUnchanged) {
  for (const char* text : {"1", "a=b", "it's", "'\\", "a\\'b", "", " ", "true", "nan", "1_0", "#",
                           "a b", "[x]", "${a}", "\n", "\xc3\xa4"}) {
    const std::string written = element_text({std::string(text), {}});
    EXPECT_EQ(value_of("k=" + written).text() ? *value_of("k=" + written).text() : "no text", text)
        << written;
    EXPECT_EQ(element_text(value_of("k=[" + written + "]")), "[" + written + "]");
  }
  EXPECT_EQ(override_text(override_of("++a/b@=")), "++a/b@=");
  EXPECT_EQ(override_text(override_of("~a.b")), "~a.b");
  EXPECT_EQ(override_text(override_of("a[0].b=TRUE")), "a.0.b=True");
}

TEST(Override, LaterEqualSignsAreLiteralExceptInFunctions) {
  EXPECT_EQ(
      value_of("url=http://h/p?x=1&y=2").text() ? *value_of("url=http://h/p?x=1&y=2").text() : "",
      "http://h/p?x=1&y=2");
  EXPECT_EQ(*value_of("key=YWJj==").text(), "YWJj==");
  EXPECT_THAT(errors_of("a==1"), testing::HasSubstr("unexpected '='"));
  EXPECT_THAT(errors_of("a=choice(b/c=1)"), testing::HasSubstr("unexpected '='"));
}

/// Syntax that Hydra accepts keeps its meaning, even where our extensions would read further.
TEST(Override, ExtensionsDoNotChangeHowHydraSyntaxIsRead) {
  EXPECT_EQ(element_text(value_of("a={b:${c.${d}}")), "{b:$\\{c.$\\{d\\}}");
  EXPECT_EQ(element_text(value_of("a={b:${c.${d}}}")), "{b:$\\{c.$\\{d\\}\\}}");
}

TEST(Override, LargeValuesAreRead) {
  const std::string many = "a=[" + std::string(1'000'000, ',').replace(0, 1, "1");
  EXPECT_THAT(errors_of(many), testing::HasSubstr("error[E0202]"));
  std::string list = "a=[1";
  for (int i = 0; i < 500'000; ++i) list += ",1";
  EXPECT_EQ(value_of(list + "]").list()->size(), 500'001u);
  std::string map = "a={k:1";
  for (int i = 0; i < 200'000; ++i) map += ",k" + std::to_string(i) + ":1";
  EXPECT_EQ(value_of(map + "}").map()->size(), 200'001u);
  std::string open = "a=";
  for (int i = 0; i < 1'000'000; ++i) open += "${";
  EXPECT_THAT(errors_of(open), testing::HasSubstr("error[E0202]"));
  EXPECT_EQ(value_of("a=" + std::string(10'000'000, '-')).text()->size(), 10'000'000u);
}

}  // namespace
}  // namespace runner
