#include <gmock/gmock.h>

#include "runner/parent/page/document.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kAttack = "<script>alert(\"1\")</script>\x1b[31m";
constexpr const char* kShown = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; [31m";

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++times;
  return times;
}

TEST(HtmlPage, EscapesAllText) {
  Document document{.title = kAttack, .blocks = {}};
  document.section(kAttack);
  document.say(kAttack);
  document.add(Table{std::string("table of ") + kAttack, {{kAttack}, {kAttack}}, false});
  document.add(CodeBlock{kAttack, kAttack, true});
  document.add(Figure{Drawing(10, 10, kAttack, kAttack)});
  document.add(Gallery{{{"jpeg", kAttack, {kAttack}}}});
  const std::string page = html_page(document);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  // Counts the title twice; heading and its link; paragraph; caption, label and two cells; summary,
  // label and text; title and description of the chart; two texts of the image.
  EXPECT_EQ(occurrences(page, kShown), 16u);
}

TEST(HtmlPage, HasNoExternalReferences) {
  const std::string page = html_page({.title = "run", .blocks = {}});
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'; "
                              "img-src data:; script-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("; form-action 'none'\""));
  for (const char* reference : {"<link", "url(", "@import", "src=\"http"})
    EXPECT_THAT(page, Not(HasSubstr(reference)));
}

TEST(HtmlPage, LinksAndFormsAreEscaped) {
  Document document{.title = "run", .blocks = {}};
  Table table{"", {{"name"}, {kAttack}}, false};
  table.links[{1, 0}] = kAttack;
  document.add(std::move(table));
  document.add(Links{kAttack, {{kAttack, kAttack}, {kAttack, ""}}});
  document.add(Form{kAttack,
                    {{kAttack, "", kAttack},
                     {kAttack, kAttack, kAttack},
                     {kAttack, kAttack, kAttack, {{kAttack, kAttack}}}},
                    kAttack});
  const std::string page = html_page(document, {.progress = kAttack, .events = kAttack});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  // Counts cell and address; label, two texts and an address of the links; the form's address, name
  // and value of three fields, two labels, value and text of a choice, button; progress and events.
  EXPECT_EQ(occurrences(page, kShown), 19u);
}

TEST(HtmlPage, OnlyAServedPageMayConnectToItsServer) {
  const Document document{.title = "run", .blocks = {}};
  EXPECT_THAT(html_page(document, Served{}), HasSubstr("form-action 'self'; connect-src 'self'\""));
  EXPECT_THAT(html_page(document), Not(HasSubstr("'self'")));
  EXPECT_THAT(html_page(document), Not(HasSubstr("<p id=\"progress\">")));
}

TEST(HtmlPage, FormShowsTheChosenValues) {
  Document document{.title = "run", .blocks = {}};
  document.add(Form{"/", {{"s", "state", "b", {{"", "any"}, {"b", "B"}}}, {"k", "", "v"}}, "Go"});
  EXPECT_THAT(html_page(document, Served{}),
              HasSubstr("<form method=\"get\" action=\"/\">\n<label>state<select name=\"s\">"
                        "<option value=\"\">any</option><option value=\"b\" selected>B</option>"
                        "</select></label>\n<input type=\"hidden\" name=\"k\" value=\"v\">\n"
                        "<button>Go</button></form>\n"));
}

TEST(HtmlPage, ListsItsSections) {
  Document document{.title = "run", .blocks = {}};
  document.section("First");
  document.part("Part");
  document.section("Second");
  const std::string page = html_page(document);
  EXPECT_THAT(page, HasSubstr("<li><a href=\"#section-1\">First</a></li>\n"
                              "<li><a href=\"#section-2\">Second</a></li>\n"));
  EXPECT_THAT(page, HasSubstr("<h2 id=\"section-2\">Second</h2>"));
  EXPECT_THAT(page, HasSubstr("<h3>Part</h3>"));
}

TEST(HtmlPage, NumbersAreRightAligned) {
  Document document{.title = "run", .blocks = {}};
  document.add(Table{"", {{"name", "value"}, {"a", "1.5"}, {"b", "–"}}, false});
  EXPECT_THAT(html_page(document),
              HasSubstr("<thead><tr><th scope=\"col\">name</th><th scope=\"col\" "
                        "class=\"number\">value</th></tr></thead>\n<tbody><tr><td>a</td>"
                        "<td class=\"number\">1.5</td></tr>\n"));
}

TEST(HtmlPage, CaptionDoesNotRepeatTheHeading) {
  Document document{.title = "run", .blocks = {}};
  document.section("Metrics");
  document.add(Table{"Metrics", {{"a"}, {"b"}}, false});
  document.add(Table{"Others", {{"a"}, {"b"}}, false});
  const std::string page = html_page(document);
  EXPECT_THAT(page, Not(HasSubstr("<caption>Metrics")));
  EXPECT_THAT(page, HasSubstr("aria-label=\"Metrics (1)\""));
  EXPECT_THAT(page, HasSubstr("<caption>Others</caption>"));
}

TEST(HtmlPage, FoldedBlocksAreExpandedInPrint) {
  const std::string page = html_page({.title = "run", .blocks = {}});
  EXPECT_THAT(page, HasSubstr("details::details-content{display:block;content-visibility:visible"));
  EXPECT_THAT(page, HasSubstr("addEventListener('beforeprint'"));
}

TEST(HtmlPage, CodeBlockKeepsItsLines) {
  Document document{.title = "run", .blocks = {}};
  document.add(CodeBlock{"yaml", "a: 1\n  b: <2>\n", false});
  EXPECT_THAT(html_page(document), HasSubstr("<pre>a: 1\n  b: &lt;2&gt;\n</pre>"));
}

TEST(HtmlPage, ChartsInARowShareAGroupAndHaveTheirOwnNames) {
  Document document{.title = "run", .blocks = {}};
  document.add(Figure{Drawing(10, 10, "one", "")});
  document.add(Figure{Drawing(900, 10, "two", "")});
  document.say("text");
  document.add(Figure{Drawing(10, 10, "three", "")});
  const std::string page = html_page(document);
  EXPECT_EQ(occurrences(page, "<div class=\"charts\">"), 2u);
  for (const char* id : {"chart-1-title", "chart-2-title", "chart-3-title"})
    EXPECT_EQ(occurrences(page, "id=\"" + std::string(id) + "\""), 1u);
  EXPECT_EQ(occurrences(page, "<figure class=\"large\""), 1u);
}

TEST(HtmlPage, ImagesArePartOfThePage) {
  Document document{.title = "run", .blocks = {}};
  document.add(Gallery{{{"f", "", {}}, {"fo", "", {}}, {"foo", "", {}}, {"foob\xff", "", {}}}});
  const std::string page = html_page(document);  // examples from RFC 4648
  for (const char* bytes : {"base64,Zg==\"", "base64,Zm8=\"", "base64,Zm9v\"", "base64,Zm9vYv8=\""})
    EXPECT_THAT(page, HasSubstr(bytes));
}

}  // namespace
}  // namespace runner
