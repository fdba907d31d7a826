# Writes lines with @ out 32 times, with 0 to 31 in its place; a label stays with the first. Comments stay as they are.
/^[ \t]*;/ || !/@/ { print; next }
{
    for (i = 0; i < 32; i++) {
        line = $0
        if (i) sub(/^[ \t]*[A-Z_0-9]+ : /, "    ", line)
        gsub(/@/, i, line)
        print line
    }
}
