# Writes OUT, the kernels of the file IN as C++: replaces each name<<<configuration>>>(arguments);, which is not C++.
file(READ ${IN} text)
string(REGEX REPLACE "([A-Za-z_][A-Za-z0-9_]*)<<<([^;]*)>>>\\(([^;]*)\\);"
       "kernels_on_cpu::launch(\"\\1\", {\\2}, [=] { \\1(\\3); });" text "${text}")
file(WRITE ${OUT} "#include \"tests/support/kernels_on_cpu/launch.h\"\n#line 1 \"${IN}\"\n${text}")
