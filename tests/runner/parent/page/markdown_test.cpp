#include <gtest/gtest.h>

#include "runner/parent/page/document.h"

namespace runner {
namespace {

TEST(Markdown, IsReadableAsText) {
  Document document{.title = "run", .blocks = {}};
  document.section("Results");
  document.say("Two classes.");
  document.add(Table{"", {{"class", "F1, %"}, {"rose", "97.5"}}, false});
  document.add(CodeBlock{"recipe", "lr: 0.1\n", true});
  document.add(Figure{Drawing(10, 10, "chart", "")});
  EXPECT_EQ(markdown(document),
            "# run\n\n## Results\n\nTwo classes.\n\n| class | F1, % |\n|---|---:|\n| rose | 97.5 "
            "|\n\n<details><summary>recipe</summary>\n\n```\nlr: 0.1\n```\n\n</details>\n");
}

TEST(Markdown, HeadingsOfSectionsWithOnlyPicturesAreLeftOut) {
  Document document{.title = "run", .blocks = {}};
  document.section("Results");
  document.say("Two classes.");
  document.part("Examples");
  document.add(Gallery{{{"jpeg", "", {}}}});
  document.section("Charts");
  document.part("Loss");
  document.add(Figure{Drawing(10, 10, "chart", "")});
  document.part("Accuracy");
  document.section("Empty");
  document.add(Table{"", {{"heading"}}, false});
  document.section("Recipe");
  document.part("All of it");
  document.say("a");
  EXPECT_EQ(markdown(document),
            "# run\n\n## Results\n\nTwo classes.\n\n## Recipe\n\n### All of it\n\na\n");
}

TEST(Markdown, CaptionDoesNotRepeatTheHeading) {
  Document document{.title = "run", .blocks = {}};
  document.section("Metrics");
  document.add(Table{"Metrics", {{"a"}, {"b"}}, false});
  document.add(Table{"Others", {{"a"}, {"b"}}, false});
  EXPECT_EQ(markdown(document),
            "# run\n\n## Metrics\n\n| a |\n|---|\n| b |\n\n**Others**\n\n| a |\n|---|\n| b |\n");
}

TEST(Markdown, SpecialCharactersAreEscaped) {
  Document document{.title = "<b>", .blocks = {}};
  document.say("a|b *c* `d` [e](f) # ~ @g $h$ _i_ \\ & !\nj");
  EXPECT_EQ(markdown(document),
            "# &lt;b\\>\n\na\\|b \\*c\\* \\`d\\` \\[e\\](f) \\# \\~ \\@g \\$h\\$ "
            "\\_i\\_ \\\\ &amp; \\! j\n");
}

TEST(Markdown, HasLinksButNoForms) {
  Document document{.title = "run", .blocks = {}};
  document.add(Links{"pages", {{"all_runs", "/"}, {"here", ""}}});
  document.add(Form{"/", {{"text", "text", ""}}, "Filter"});
  EXPECT_EQ(markdown(document), "# run\n\n[all\\_runs](/)\nhere\n");
}

TEST(Markdown, CodeBlockCannotEndEarly) {
  Document document{.title = "run", .blocks = {}};
  document.add(CodeBlock{"", "a\n````\nb", false});
  EXPECT_EQ(markdown(document), "# run\n\n`````\na\n````\nb\n`````\n");
}

}  // namespace
}  // namespace runner
