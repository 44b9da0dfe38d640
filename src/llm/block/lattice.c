/* src/llm/block/lattice.c - IQ1, IQ2 and IQ3: code books of points of a lattice
 *
 * Data     256 values; 8 (IQ3: 4) values together are one entry of a code book times the scale of their group of 32 or
 *          16, D (2 k + 1) times a constant. IQ2 and IQ3: entries are magnitudes, signs are stored separately (XXS, XS:
 *          7 bits for 8 values, the eighth makes the number of minus signs even). IQ1: entries are -1, 0, 1, all
 *          shifted by 1/8 or -1/8.
 * Books    an entry is two characters: its lower and its upper half, each a number in base 3 (four values) or base 8
 *          (two values), first value lowest, plus 35. Entries are sorted, so those with the same upper half are
 *          adjacent.
 * Search   sum of w (x - s g)^2 = const + s (s N - 2 P). N and P are sums over the values, hence over the two halves:
 *          two tables of at most 81 numbers give every entry by one addition. An upper half is skipped if even the best
 *          lower half could not win. Groups, D and k as in kformats.c: trial scales, D by curvature, neighbouring k,
 *          least squares.
 *          If the number of minus signs must be even and is not, the value with the least w |x| gets the opposite sign.
 * Cost     about 400 additions per value
 * Left out finding the entry that is nearest for all trial scales at once */
#include "llm/block/lattice_inside.h"
#include "llm/block/block_inside.h"
#include "core/target.h"

static const char tinyi_lattice_iq2xxs[] =    /* 256 */
    "###%#'#)#+#-#/#5#7#;#=#\?#A#G#M#Q#S#Y#[#a#m$$$&$,$0$>$\\$h%#%%%7%[&$&&&,&6&8&>&@&D&P&Z&\\&b&n'#'%')'5'C'W'Y'c(*"
    "(,(>(\\(n)#)')))/);)\?)A)G)I)_*&*>+%+/,$,&,,,6,>,P,\\,b,f-#-)-5-G-O-Y.8.B/#/)/5/9/E/Y020R1#112$2&2,2>2Z3#3'3k4H"
    "5#5%5+5A5Q5Y5[6<6D7#7%8$8&8,8>8L9#9\?9S:b;);5;e=A>$>&>,>2>6>8>>>D>L>P>Z>\\>b\?#\?5\?Q\?Y\?]@$@,@D@L@VA#A)A5AYAi"
    "B.B8C#D$D&D,D>DBE#EMEQE[FBFbG#G)G-G3G5GYG_H&H@HnIcJbJdK+L$LJM#M-M3MSN>O)P&P,P>PVQ#QKR2RPS#S'T,T.T\\V@Y#Y%Y+Y\?Y["
    "Z&Z2Z>[-\\$\\&\\,\\0\\>\\P]#]C]e^*^>^P_%`&a-b&b,b8b>blc1cYdBe#e7eAfHhZi5k%kGk]l*m#n2qGr&";
static const char tinyi_lattice_iq2xs[] =    /* 512 */
    "###%#'#)#+#-#/#1#3#5#7#9#;#\?#A#C#E#G#I#K#M#Q#S#Y#[#]#_#c#e#i#k$$$&$($*$,$.$0$2$4$6$8$>$@$B$D$H$J$P$V$Z$\\$b%#%%"
    "%'%)%-%/%5%\?%A%G%K%Y%a&$&&&(&*&,&.&0&2&6&8&>&@&B&D&H&J&L&P&Z&\\&b'#'%''')'-'/'5'\?'A'G'Q'Y($(&(,(:(>(@(\\)#)%)'"
    ")))+)-)/)5)9)\?)A)G)M)Y)k)s*$*&*,*>*Z*`+#+5+;+g+k,$,&,(,*,,,.,0,2,6,8,>,@,B,D,H,J,P,X,Z,\\,b-#-%-'-)---/-5-\?-A"
    "-G-Y-e-g.$.&.(.,.>.P/#/%/'/)/-///5/\?/A/E/G/S/Y0$0&0,0>1#1/1E2$2&2,2.2>2J2^3#3'3U4H4r5#5%5'5)5+5-5/555\?5A5G5Y5k"
    "6$6&6,6>6D6T7#777Y7q8$8&8,8<8>9#9\?9I9i:$:4:p;#;);+;5;K;_;m<V<b=)=5=[=_=a>$>&>(>*>,>.>0>2>6>8>>>@>B>D>F>H>J>P>T"
    ">Z>\\>b\?#\?%\?'\?)\?-\?/\?5\?\?\?A\?G\?Y\?]\?m@$@&@,@.@<@>A#A%A'A)A-A/A3A5A\?AAAGAYAeB$B&B,B8B>BjC#C+CACGD$D&D,"
    "D>DBDJDRE#E-EAEGEWF&G#G%G'G)G-G/G5G;G\?GAGGGYH$H&H,H0H>H@I#IAIsJ$J&J,J6J>JPJZJlK#K)KYK_L6LVLlM#M/M\?MGMiN4N>N@O]"
    "P$P&P,P>PJPRP^PrQ#R8RFRdS#S1T,T>TBTnV$VXW9X(XJXRY#Y%Y'Y)Y-Y/Y5Y=Y\?YAYGYYY[YqYsZ$Z&Z(Z,Z>ZHZN[#[5[Y[[[k[q\\$\\&"
    "\\,\\.\\0\\>\\P\\`]#]A]o^2^X_#_)_9_O_Y_[_q`(a7aYa_agaqb$b&b,b>bLb\\c#c7cSdLd`e#e'eAeGeMf<fbfdg\?hHhpiEj0jPk#k%k)"
    "k+k5k=kklHlNlpm#m%m)m=mYmkn>nfpTphq+q5q7q;qkqqr&r\\r^s;s=scss";
static const char tinyi_lattice_iq2s[] =    /* 1024 */
    "###%#'#)#+#-#/#1#3#5#7#9#;#\?#A#C#E#G#I#K#M#Q#S#U#W#Y#[#]#_#c#e#k#o#s$$$&$($*$,$.$0$2$6$8$>$@$B$D$H$J$L$N$P$T$V"
    "$Z$\\$b$d$f$l$n%#%%%'%)%-%/%5%=%\?%A%C%E%G%K%Y%]%a%e%m&$&&&(&*&,&.&0&2&6&8&:&<&>&@&B&D&F&H&J&L&N&P&R&T&Z&\\&^&`"
    "&b&f&h&l&n'#'%''')'+'-'/'1'3'5'9';'\?'A'C'E'G'I'K'M'Q'S'Y'[']'_'c'e'k($(&(((*(,(0(>(B(D(H(J(P(Z(\\(b)#)%)')))-)/"
    ")1)3)5)9)=)\?)A)C)E)G)I)K)M)Q)S)Y)])e)s*$*&*,*.*0*2*6*>*B*D*H*J*P*Z*b+#+-+/+7+;+=+G+i,$,&,(,*,,,.,0,2,6,8,:,>,@"
    ",B,D,H,J,L,N,P,R,T,V,Z,\\,^,b,f,h,l,n-#-%-'-)-+---/-1-3-5-7-9-;-\?-A-C-E-G-I-K-M-Q-S-Y-[-]-_-c-e.$.&.*.,.0.6.8.>"
    ".B.H.J.Z.\\.b/#/%/'/)/-///1/3/5/9/;/\?/A/C/E/G/I/K/M/Q/S/Y/[/]/_/c/e/k0$0&0(0*0,0.000206080>0@0B0D0H0J0P0Z0\\0b"
    "1#1'1)1-1/151\?1A1G1Y1s2$2&2(2*2,2022262>2@2B2D2H2J2P2Z2\\3#3%3'3)3-3/353\?3A3G3W3m4&4,4>4L5#5%5'5)5-5/51535559"
    "5=5\?5A5G5I5K5S5Y5a5e5s6$6&6,6.60666>6@6B6H6J6P6Z6\\6b7#7+777;7=7A7G7_7a7q8$8&8(8*8,808286888>8@8B8D8H8J8P8Z8\\"
    "8b9#9'9)9-9/959\?9A9G9U9Y:$:&:,:>:N;#;';-;/;\?;A;G;a;s<$<&<,<f=+=7=S=_=a>$>&>(>*>,>.>0>2>4>6>8>:>>>@>B>D>F>H>J>L"
    ">N>P>R>T>Z>\\>b>f>h>l>n\?#\?%\?'\?)\?-\?/\?1\?3\?5\?7\?9\?\?\?A\?C\?E\?G\?I\?K\?M\?Q\?S\?Y\?[\?]\?_\?c\?e\?k@$@&"
    "@,@.@0@2@8@>@B@D@H@J@P@Z@\\A#A%A'A)A+A-A/A1A3A5A7A9A;A\?AAACAEAGAIAKAMAQASAYA[A]A_AcAeAkB$B&B(B*B,B.B0B2B6B8B>B@"
    "BBBDBHBJBPBXBZB\\BbC#C%C'C)C-C/C5C\?CACGCYCoD$D&D*D,D.D0D2D6D8D>D@DBDDDHDJDPD\\DbE#E%E'E)E-E/E5E\?EAEGEYEgF$F&F,"
    "F>G#G%G'G)G-G/G1G3G5G7G9G;G\?GAGCGEGGGIGKGMGQGSGYG[G]G_GcGeH$H&H(H*H,H.H0H2H6H8H>H@HBHDHHHJHPHZH\\HbI#I'I)I-I/I5"
    "I\?IAIGIWIYJ$J&J(J*J,J.J0J2J6J8J>J@JBJDJHJJJPJZJ\\JbK#K%K'K)K-K/K5K\?KAKGKYL$L&L,L:L>M#M%M'M)M-M/M5M\?MAMGMOMYN$"
    "N&N,N>O#O3O]OqP$P&P(P,P.P0P2P6P8P>PBPDPHPJPPP\\PbQ#Q%Q'Q)Q-Q/Q5Q\?QAQGQYQiR&R,R>RLRlS#S'S)S-S/S5S\?SASGSYT$T&T,"
    "T>TFTVTdU#UeV$V&V,VTVhW#W=X@XlY#Y%Y'Y)Y-Y/Y3Y5Y9Y\?YAYGYIYKYMYQYYY]YcYeZ$Z&Z*Z,Z.Z0Z2Z6Z8Z>Z@ZBZDZHZJZZZ\\ZbZr[#"
    "['[+[-[/[\?[A[G\\$\\&\\(\\*\\,\\.\\0\\2\\6\\>\\@\\B\\D\\H\\J\\P\\Z\\\\\\b]#]%]'])]-]/]5]\?]A]G]Y]a^$^&^,^<^>_#_'"
    "_-_/_\?_A_G_m`$`&`>`Ta7aMaOa[amb$b&b*b,b.b0b2b8b>b@bBbDbHbJbPbZb\\bbc#c'c-c/c\?cAcGcOd$d&d,d>dpe#e%e'e)e-e/e5e\?"
    "eAeGeYegf$f&f,f>fhflg#gCgSh$h&h,h:h>hri#iEiIjbk#k'k+k/k7k=k\?kAkGkmksl>lTm%m+m7m;m=m[m_mamqn$n&n,n>n`nno#o3pHq+"
    "q;qmrJr^s)s+s5s7s;s_ss";
static const char tinyi_lattice_iq3xxs[] =    /* 256 */
    "###%#'#,#.#2#3#5#<#E#^#`$$$&$+$-$4$8$;$=$D$O$[%#%%%'%,%3%5%<%>%B%L%R%`&$&*&+&-&8&['.'B'G'R'^'`($(*(=(M)@)W*+*/*1"
    "*F*T+$+&+++-+4+6+;+=+\?+J+K,#,%,,,3,5-$-&-+---4-;-].#.%.3.<.I.Y/$/(/K03070I0\\1(252C3#3%3,3.3335393<3E4$4&4(4+4-"
    "444;4V4Z4[5#5%5,5253555B5C5P6$6+6/6[6_7@7N8&8:8D8_:$:&:1:H;$;+;-;4;6;K;X;]<#<%<3<<<G<I=$=&=+=8=M=]>,>>\?;\?J\?]"
    "@#@)@5@PA/AAAVB>BSC'C2C@CBCNCRD_E3EBECESEYF*FHG'GLGWH8HFH[J(J+J-J;K-KDK[L#L)L9LPM/M=M]N%NNO+O6O:O]P%P<QKR7RES7SG"
    "SISWT4TTU2UWV;VAWGX(XMY>Z&Z4[&[([*[+[=[M\\9\\C]-]H]M^#^0^>^S_4_D`#`%`7a;";
static const char tinyi_lattice_iq3s[] =    /* 512 */
    "###$#%#(#*#+#,#-#/#1#3#4#8#>#C#E#H#J#L#N#S#U#\\#_#b$#$$$%$'$+$,$0$3$6$:$<$@$G$T$X$]%#%$%(%*%+%.%1%4%8%;%\?%E%H%J"
    "%L%N%[%^&&&,&0&3&5&<&>&A&G&K&M&Z&\\&`'#'.'2'4'7'='C'F'L'[(%('(3(5(9(>(D(H(J(Y(^))),).)<)M)\\*#*%*'*3*5*9*>*K*O+#"
    "+$+%+'+++,+.+0+2+3+5+<+\?+A+O+Q+T+],#,$,&,),+,/,4,;,>,D,K,M,[,a-#---0-2-3-7-=-C-F-P-S-].$.'.*.+...4.:.;.\?.D.U.["
    "/&/(/-///</>/E/I/K/O0$0+0.040;0=0L13171:1G1I2$2&2+2-242@2D2U2[3#3$3&3(3*3+3-3/3134363:3;3=3D3F3H3K3M3Z3[3^3`4#4%"
    "4+4.4245484<4\?4E4L5$5'5*54565;5B5D5N5R5\\5_6#6%6(6,65676<6>6E6K6Y7$7*73767=7@7D7]7`8'8,858B8C8N8[9#9%9*949P9T:("
    ":,:9:;:F:K;%;,;.;0;2;5;<;>;@;E;G;J;L;V;\\<$<&<(</<4<6<C<S<]<a=#=-=3===\?=K>$>+>/>4>6>:>;>D>F>J>P>^\?&\?,\?1\?5"
    "\?<\?M\?S\?W@$@+@-@8@=@G@Q@^A1ADB$B&B3B5B@C#C'C-C3C7C:C=CDCKC[D%D*D,D.D5D;D@DFDLDPE$E&E+E0E4E>ECEREUE[F'F,F.F3F5"
    "F<F@G#G%G7GBGCG\\H(H*H4HUI.I\?ISJ+J0J;JFJLK%K+K/K5KCKGKJKMKYK_L$L&L(L-L4L=L]M#M,M6M;MAMNN%N*N+N:NGNLNXN^O$O'O3O="
    "OIP-P9PLPNQER%R'R5S,S.S0S<S>SST#T3T:TWU-U\?UEUPUUU[V#V/V4VCW8WFWUX#X&X\?XSY(YCZ,Z.[#['[*[3[5[A[C[O[U\\%\\,\\7\\F"
    "\\H]$]']+]1]4];]L^%^=^@^N_$_(_._3_K`5`Ea%a<b#";
static const char tinyi_lattice_iq1[2][2049] = {   /* 2 x 1024: no string may be longer than 4095 */
    "###%#'#)#+#-#0#5#7#;#=#B#H#J#L#T#Y#[#_#a#f#k#m#q#s$&$'$-$/$1$3$4$9$\?$C$E$I$K$O$Q$S$U$V$]$c$e$g$o%#%%%)%+%0%5%7"
    "%;%=%B%H%N%S%W%Y%[%_%a%c%f%i%k%m%q%s&-&/&1&9&\?&E&K&O&S&T&c&i&o'$'&'''('0'2'4'<'>'B'F'G'H'J'K'L'N'P'R'T'V'X'Z'c"
    "'f'h'j'l'n'o'p'r(/(3(\?(A(G(I(K(M(P(Q(U(W(](c(e(i)#)%)))+)0)5)7);)=)B)H)L)T)Y)[)_)a)f)k)m)q)s*'*-*/*3*8*9*\?*G*H"
    "*K*Q*S*W*c*e*g*i*o+#+%+)+++0+5+7+;+=+B+H+N+Q+T+Y+[+]+_+a+f+k+m+q+s,,,-,/,3,8,9,\?,A,G,K,M,Q,S,T,W,c,e,g,l,o-$-&"
    "-(-*-,-.-0-2-6-8-<-B-F-G-H-I-J-K-L-N-P-T-\\-d-f-l-n.-./.1.9.>.C.E.I.K.M.O.S.U.].c.e.g.o/$/(/*///0/2/3/6/:/\?/B/C"
    "/D/F/H/J/K/L/N/R/T/V/\\/`/b/e/f/h/i/j/l/n/o/r0%0'0+0-0/0001030507090;0=0\?0A0B0C0H0I0J0K0L0N0O0Q0S0T0U0W0Y0[0\\"
    "0]0_0a0b0c0e0f0g0i0j0k0m0o1$1&1'1(10111214161:1>1@1A1B1D1F1H1K1L1M1N1Q1S1T1V1W1X1^1a1d1f1n1r2-21292\?2A2C2E2G2K"
    "2M2O2P2Q2S2U2W2]2c2e2o3,3.303436393@3A3B3D3H3J3K3L3N3O3P3T3X3`3c3d3f3h3l3p3r4*41484:4A4C4E4G4I4K4M4Q4U4W4]4c4g4j"
    "5#5%5)5+505557595;5=5B5H5N5Q5T5Y5[5_5a5f5k5m5o5q5s6'6-6/63696@6A6E6K6M6O6Q6S6T6U6]6b6g6i6o7$7)7+7-7075777;7=7B7H"
    "7L7N7T7Z7_7a7c7f7k7m7q7s8'8/8183898A8B8C8E8I8K8M8O8U8]8c8e8i8l8o9*90969<9>9B9D9H9J9K9N9R9T9V9`9b9e9f9h9j9l9n9p9r"
    ":':,:.:3:9:\?:E:K:P:Q:W:\\:^:b:j;#;%;);+;0;5;7;;;=;B;H;J;T;Y;[;_;a;k;m;q;s<*<-</<3<9<C<E<I<K<Q<S<U<W<]<b<g<i<n<o"
    "=#=%=)=+=5=7=;===B=H=L=N=T=Y=[=_=a=f=k=m=q=s>'>->1>9>E>I>K>M>O>Q>S>U>e>i>l>p\?#\?$\?&\?(\?*\?.\?0\?1\?2\?4\?6\?:"
    "\?<\?B\?D\?F\?H\?J\?K\?L\?N\?O\?T\?V\?X\?Z\?\\\?^\?b\?d\?f\?k\?l\?m@'@-@/@1@9@\?@I@K@O@S@W@`@e@oA$A0A3A<ABADAFAH"
    "AJAKALAQARATAVAXAZA^A`AbAdAfAkAlArB$B%B'B+B-B/B0B1B3B5B9B=B\?BABBBCBEBGBHBJBKBLBMBNBQBSBTBUBWB[B\\B]B_BcBeBfBgBi"
    "BjBoBqBsC$C'C*C/C0C2C4C6C8C<C>C@CBCDCGCHCICKCLCNCRCTCVCZC]CaCeCfClCnCpD'D-D0D4D9D@DEDGDKDMDQDSDUDWD]DcDeDgDiDoE$"
    "E'E(E+E,E/E0E2E6E8E:E>EBEFEHEIEJEKELENEPERETEUEXE^E`EdEfEgEhElEnEpErF1FAFCFEFKFMFOFSFWFeFoG$G&G'G(G*G.G0G4G6G8G<"
    "G>GBGDGHGJGKGLGNGTGVG^G`GfGhGkGlGpGrH'H)H*H+H-H/H0H1H2H3H5H9H:H;H=H\?HAHBHCHEHGHHHIHJHKHLHMHNHOHQHSHTHUHWH[H]Hc"
    "HeHfHgHiHkHoHsI$I(I.I0I4I6I8I@IBIFIHIJIKILINIRITI]IbIdIfIiIjInJ&J'J-J/J0J1J2J3J6J9J;J=J\?JAJBJCJEJFJGJHJJJKJLJM"
    "JNJOJQJRJSJTJUJWJYJ_JaJcJeJfJgJiJlJnJoJsK$K%K&K'K(K*K,K-K.K/K0K1K3K4K6K8K9K:K<K>K\?K@KAKBKCKD",
    "KEKGKHKIKJKKKLKMKNKOKPKQKSKTKUKVKWKXKZK\\K]K`KaKbKcKeKfKgKhKiKlKnKoKpKrL#L$L%L&L(L)L*L-L/L0L2L3L5L6L7L8L9L:L;L<"
    "L\?LBLCLDLELFLGLHLILJLKLLLMLNLOLQLSLTLWL[L]L^L_L`LaLcLfLjLmLoLpLqLrM&M'M(M*M,M0M2M6M=MBMDMFMHMJMKMLMMMNMPMRMSMT"
    "M[M`MbMdMfMhMlMrN$N%N'N+N-N/N0N1N3N9N\?NANBNCNENGNHNINJNKNLNMNNNONQNSNTNUNWNZN]N`NcNeNfNgNhNiNoO&O)O0O4O5O9O:O<"
    "OBODOEOHOKOLOMONOROTOVOXOZOaOdOfOgOhOjOlP'P/P1P3P9PAPGPKPLPMPOPQPSPUPWPZPgPoQ$Q&Q(Q*Q.Q0Q6Q7Q:Q<QBQEQHQKQLQNQTQU"
    "QXQ\\QaQdQfQlQpQrR-R1R3R>R\?RCRKRLRMRPR]RcRgRoS-S.S0S1S4S6S:S<S>S@SBSDSFSHSJSKSLSNSOSPSRSTS\\S]S`SbSdSeSfSgShSj"
    "SlSnSrT'T)T+T-T0T1T3TATBTCTETGTHTJTKTLTNTQTSTTTUTWT^T`TaTcTfTgTiTjTmToTpTqU%U*U0U5U:U;U<U>UBUDUFUHUJUKULUMUOUPUT"
    "UVUYU[U]UaUeUgUhUiUkUnUpUsV1V3V9V\?VIVKVOVQVWV]VcVhVpW$W&W,W0W6W8W:W<W>W\?WBWCWDWHWJWKWLWNWPWTWXW[W\\WaWfWlWnWo"
    "WrX-X1X2X\?XAXEXGXKXMXOXSXTXWX^XeXhXjXpY#Y%Y)Y+Y5Y7Y;Y=YBYGYHYJYLYNYTYYY[Y_YaYfYkYmYqYsZ'Z-Z/Z1Z3Z9Z\?ZAZEZGZIZK"
    "ZLZMZNZSZUZWZ]Z`ZeZgZiZo[#[%[)[+[0[5[7[;[=[H[J[N[T[Y[[[_[a[f[k[m[q[s\\/\\3\\\?\\A\\H\\K\\O\\Q\\S\\W\\e\\i]$]*]."
    "]0]4]:]<]>]\?]B]D]H]J]K]L]N]O]T]U]V]X]Z]\\]^]`]b]d]f]h]p^-^1^3^9^\?^A^E^F^G^K^N^O^Q^U^X^]^c^j^n_#_%_)_+_0_5_7_;"
    "_=_\?_B_H_J_N_T_W_Y_[___a_f_k_m_q_s`'`(`-`/`1`9`\?`A`C`E`G`I`K`O`Q`S`]`g`i`oa#a%a)a+a0a5a7a;a=aBaHaJaLaYa[a_aaaf"
    "akamaqasb'b-b1b2b3b9b\?bCbEbKbMbObWbXb]bcbebgbiboc$c&c(c*c,c0c2c4c6c8c:c<c>cBcGcHcJcKcLcNcRcTc\\c^cdcfchclcncpcr"
    "d'd-d/d3d9dAdCdEdGdIdKdMdUdWd]dedgdre$e&e(e,e0e2e:e>eFeHeJeKeLeMeNePeQeReTe\\e^edeeefehelerf#f'f)f+f,f-f/f0f1f3"
    "f6f9f<f=f\?fAfBfCfEfGfHfIfJfKfLfMfNfOfQfSfTfUfWfZf]f_fcfdfefffgfifjfkfmfofqfsg$g&g,g0g3g5g:g<gBgDgEgHgIgKgLgNgT"
    "gVg[g\\g`gagdgegfgngpgrh'h1h3h9h\?hChGhIhKhLhOhShTh]hchghihoi&i(i*i,i.i0i2i4i5i6i8i:i>i@iBiDiFiHiJiKiLiNiRiTiUiX"
    "iZi\\ibidifijilipj'j0j9jAjCjEjGjKjMjQj]jcjejfjgk#k%k)k+k0k5k7k;k=kBkHkJkLkNkYk[k_kakfkkkmkqksl'l*l-l/l1l3l4lClE"
    "lHlKlMlOlQlSl]lbldlglim%m)m+m,m3m7m;m=mBmHmLmNmTmYm[m_mamfmkmmmqmsn3n9n\?nAnGnJnKnMnOnQnTnUnVnWn]o(o*o,o.o0o2o:"
    "o<o@oBoHoJoKoLoNoToXoZo\\o]o^o`odofohp'p-p1p4p6p9pApCpFpIpKpLpMpPpRp^pbpfpgpiplpnppq#q%q)q+q5q7q;q=qHqJqLqNqYq["
    "q_qaqfqkqmqqqsr'r/r3r6r9r\?rGrKrOrQrUrWrbrgs#s%s)s+s5s7s;s=sHsJsLsYs[s_sasfsksmsqss"
};

#define TINYI_LATTICE_HALVES 84             /* 81, and whole vectors */

typedef struct tinyi_lattice {
    const char *book;
    int entries, size, half, base;          /* values of an entry and of its half; base of a half's number */
    float level[8];                         /* the value of a digit */
    int group, k_top;                       /* values under one scale; k from 0 */
    float unit;                             /* y = D (2 k + 1) unit level */
    int even;                               /* the number of minus signs of 8 values */
    int shifts;                             /* 0: none; 8 or 32: that many values share one */
    int trials;
    float trial[12];                        /* trial scales, where 1 gives the largest value the largest level */
} tinyi_lattice;

#define TINYI_LATTICE_2 { 8, 25, 43, 0, 0, 0, 0, 0 }
#define TINYI_LATTICE_2_TRIALS 7, { 1, 0.68f, 0.83f, 1.15f, 1.35f, 1.72f, 5.375f, 0, 0, 0, 0, 0 }
static const tinyi_lattice tinyi_lattice_of_iq2xxs = {
    tinyi_lattice_iq2xxs, 256, 8, 4, 3, TINYI_LATTICE_2, 32, 15, 0.125f, 1, 0, TINYI_LATTICE_2_TRIALS
};
static const tinyi_lattice tinyi_lattice_of_iq2xs = {
    tinyi_lattice_iq2xs, 512, 8, 4, 3, TINYI_LATTICE_2, 16, 15, 0.125f, 1, 0, TINYI_LATTICE_2_TRIALS
};
static const tinyi_lattice tinyi_lattice_of_iq2s = {
    tinyi_lattice_iq2s, 1024, 8, 4, 3, TINYI_LATTICE_2, 16, 15, 0.125f, 0, 0, TINYI_LATTICE_2_TRIALS
};
static const tinyi_lattice tinyi_lattice_of_iq3xxs = { tinyi_lattice_iq3xxs,
                                                       256,
                                                       4,
                                                       2,
                                                       8,
                                                       { 4, 12, 20, 28, 36, 44, 52, 62 },
                                                       32,
                                                       15,
                                                       0.25f,
                                                       1,
                                                       0,
                                                       8,
                                                       { 1, 0.75f, 0.84f, 0.92f, 1.08f, 1.18f, 1.4f, 15.5f, 0, 0, 0,
                                                         0 } };
static const tinyi_lattice tinyi_lattice_of_iq3s = { tinyi_lattice_iq3s,
                                                     512,
                                                     4,
                                                     2,
                                                     8,
                                                     { 1, 3, 5, 7, 9, 11, 13, 15 },
                                                     32,
                                                     15,
                                                     1.0f,
                                                     0,
                                                     0,
                                                     8,
                                                     { 1, 0.75f, 0.84f, 0.92f, 1.08f, 1.18f, 1.4f, 15.0f, 0, 0, 0,
                                                       0 } };
#define TINYI_LATTICE_1 { -1, 0, 1, 0, 0, 0, 0, 0 }
#define TINYI_LATTICE_1_TRIALS 6, { 1, 0.33f, 0.47f, 0.62f, 0.77f, 1.2f, 0, 0, 0, 0, 0, 0 }
static const tinyi_lattice tinyi_lattice_of_iq1s = {
    tinyi_lattice_iq1[0], 2048, 8, 4, 3, TINYI_LATTICE_1, 32, 7, 1.0f, 0, 32, TINYI_LATTICE_1_TRIALS
};
static const tinyi_lattice tinyi_lattice_of_iq1m = {
    tinyi_lattice_iq1[0], 2048, 8, 4, 3, TINYI_LATTICE_1, 16, 7, 1.0f, 0, 8, TINYI_LATTICE_1_TRIALS
};

/* a 0 ends 1024 entries */
static const char *tinyi_lattice_entry(const tinyi_lattice *f, int i) { return f->book + 2 * i + (i >> 10); }

TINY_REF_BEGIN

/* ---- back to floats ------------------------------------------------------------------------------------------- */

/* The values of every half, half after half. */
static void tinyi_lattice_table(const tinyi_lattice *f, float *value)
{
    const int count = f->half == 4 ? 81 : 64;
    int digit[4] = { 0, 0, 0, 0 }, p, i;
    for (p = 0; p < count; p++) {
        for (i = 0; i < f->half; i++) *value++ = f->level[digit[i]];
        for (i = 0; i < f->half && ++digit[i] == f->base; i++) digit[i] = 0;
    }
}
/* x[0..8) = d g with signs, for an entry of 8 values, or two entries of 4; table is that of the book. */
static void tinyi_lattice_signed8(const tinyi_lattice *f, const float *table, int i, float d, unsigned signs, float *x)
{
    const char *e = tinyi_lattice_entry(f, i);
    const float *low = table + (e[1] - 35) * 4, *up = table + (e[0] - 35) * 4;
    float by[2];
    int j;
    by[0] = d;
    by[1] = -d;
    for (j = 0; j < 4; j++) {
        x[j] = by[signs >> j & 1] * low[j];
        x[j + 4] = by[signs >> (j + 4) & 1] * up[j];
    }
}
static void tinyi_lattice_signed4(const tinyi_lattice *f, const float *table, int i, int k, float d, unsigned signs,
                                  float *x)
{
    const char *e = tinyi_lattice_entry(f, i), *h = tinyi_lattice_entry(f, k);
    const float *part[4];
    float by[2];
    int j;
    part[0] = table + (e[1] - 35) * 2;
    part[1] = table + (e[0] - 35) * 2;
    part[2] = table + (h[1] - 35) * 2;
    part[3] = table + (h[0] - 35) * 2;
    by[0] = d;
    by[1] = -d;
    for (j = 0; j < 4; j++) {
        x[2 * j] = by[signs >> 2 * j & 1] * part[j][0];
        x[2 * j + 1] = by[signs >> (2 * j + 1) & 1] * part[j][1];
    }
}
static void tinyi_lattice_shifted8(const tinyi_lattice *f, const float *table, int i, float d, int minus, float *x)
{
    const char *e = tinyi_lattice_entry(f, i);
    const float *low = table + (e[1] - 35) * 4, *up = table + (e[0] - 35) * 4, shift = minus ? -0.125f : 0.125f;
    int j;
    for (j = 0; j < 4; j++) {
        x[j] = d * (low[j] + shift);
        x[j + 4] = d * (up[j] + shift);
    }
}
/* 7 bits and the eighth that makes their number even */
static unsigned tinyi_lattice_eighth(unsigned seven)
{
    unsigned p = seven ^ seven >> 4;
    p ^= p >> 2;
    p ^= p >> 1;
    return seven | (p & 1) << 7;
}

TINYI_FN void tinyi_unpack_IQ2_XXS(const void *q, float *x, size_t n)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq2xxs;
    const unsigned char *b = (const unsigned char *)q;
    float table[4 * 81];
    int group, l;
    tinyi_lattice_table(f, table);
    for (; n >= 256; n -= 256, x += 256, b += 66)
        for (group = 0; group < 8; group++) {
            const unsigned char *at = b + 2 + 8 * group;
            const uint32_t word = tinyi_q_u32(at + 4);
            const float d = tinyi_q_half(b) * (0.5f + (float)(word >> 28)) * 0.25f;
            for (l = 0; l < 4; l++)
                tinyi_lattice_signed8(f, table, at[l], d, tinyi_lattice_eighth(word >> 7 * l & 127),
                                      x + 32 * group + 8 * l);
        }
}
TINYI_FN void tinyi_unpack_IQ2_XS(const void *q, float *x, size_t n)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq2xs;
    const unsigned char *b = (const unsigned char *)q;
    float table[4 * 81];
    int v;
    tinyi_lattice_table(f, table);
    for (; n >= 256; n -= 256, x += 256, b += 74) {
        const float d0 = tinyi_q_half(b);
        for (v = 0; v < 32; v++) {
            const unsigned word = tinyi_q_u16(b + 2 + 2 * v);
            const float d = d0 * (0.5f + (float)(b[66 + v / 4] >> v / 2 % 2 * 4 & 15)) * 0.25f;
            tinyi_lattice_signed8(f, table, (int)(word & 511), d, tinyi_lattice_eighth(word >> 9), x + 8 * v);
        }
    }
}
TINYI_FN void tinyi_unpack_IQ2_S(const void *q, float *x, size_t n)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq2s;
    const unsigned char *b = (const unsigned char *)q;
    float table[4 * 81];
    int v;
    tinyi_lattice_table(f, table);
    for (; n >= 256; n -= 256, x += 256, b += 82) {
        const float d0 = tinyi_q_half(b);
        for (v = 0; v < 32; v++) {
            const float d = d0 * (0.5f + (float)(b[74 + v / 4] >> v / 2 % 2 * 4 & 15)) * 0.25f;
            tinyi_lattice_signed8(f, table, b[2 + v] | (b[66 + v / 4] >> v % 4 * 2 & 3) << 8, d, b[34 + v], x + 8 * v);
        }
    }
}
TINYI_FN void tinyi_unpack_IQ3_XXS(const void *q, float *x, size_t n)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq3xxs;
    const unsigned char *b = (const unsigned char *)q;
    float table[2 * 64];
    int group, l;
    tinyi_lattice_table(f, table);
    for (; n >= 256; n -= 256, x += 256, b += 98)
        for (group = 0; group < 8; group++) {
            const unsigned char *at = b + 2 + 8 * group;
            const uint32_t word = tinyi_q_u32(b + 66 + 4 * group);
            const float d = tinyi_q_half(b) * (0.5f + (float)(word >> 28)) * 0.5f;
            for (l = 0; l < 4; l++)
                tinyi_lattice_signed4(f, table, at[2 * l], at[2 * l + 1], d, tinyi_lattice_eighth(word >> 7 * l & 127),
                                      x + 32 * group + 8 * l);
        }
}
TINYI_FN void tinyi_unpack_IQ3_S(const void *q, float *x, size_t n)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq3s;
    const unsigned char *b = (const unsigned char *)q;
    float table[2 * 64];
    int v;
    tinyi_lattice_table(f, table);
    for (; n >= 256; n -= 256, x += 256, b += 110) {
        const float d0 = tinyi_q_half(b);
        for (v = 0; v < 32; v++) {
            const float d = d0 * (float)(1 + 2 * (b[106 + v / 8] >> v / 4 % 2 * 4 & 15));
            const int high = b[66 + v / 4] >> v % 4 * 2;
            tinyi_lattice_signed4(f, table, b[2 + 2 * v] | (high & 1) << 8, b[2 + 2 * v + 1] | (high & 2) << 7, d,
                                  b[74 + v], x + 8 * v);
        }
    }
}

TINYI_FN void tinyi_unpack_IQ1_S(const void *q, float *x, size_t n)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq1s;
    const unsigned char *b = (const unsigned char *)q;
    float table[4 * 81];
    int v;
    tinyi_lattice_table(f, table);
    for (; n >= 256; n -= 256, x += 256, b += 50) {
        const float d0 = tinyi_q_half(b);
        for (v = 0; v < 32; v++) {
            const int word = tinyi_q_u16(b + 34 + v / 4 * 2);
            tinyi_lattice_shifted8(f, table, b[2 + v] | (word >> v % 4 * 3 & 7) << 8,
                                   d0 * (float)(2 * (word >> 12 & 7) + 1), word >> 15, x + 8 * v);
        }
    }
}
TINYI_FN void tinyi_unpack_IQ1_M(const void *q, float *x, size_t n)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq1m;
    const unsigned char *b = (const unsigned char *)q;
    float table[4 * 81];
    int v;
    tinyi_lattice_table(f, table);
    for (; n >= 256; n -= 256, x += 256, b += 56) {
        const float d =
            tinyi_f16_to_f32((uint16_t)(b[49] >> 4 | (b[51] & 0xf0) | (b[53] & 0xf0) << 4 | (b[55] & 0xf0) << 8));
        for (v = 0; v < 32; v++) {
            const int high = b[32 + v / 2] >> v % 2 * 4, k = tinyi_q_u16(b + 48 + v / 8 * 2) >> v / 2 % 4 * 3 & 7;
            tinyi_lattice_shifted8(f, table, b[v] | (high & 7) << 8, d * (float)(2 * k + 1), high >> 3 & 1, x + 8 * v);
        }
    }
}

/* ---- the nearest entry ------------------------------------------------------------------------------------------- */

typedef struct tinyi_lattice_index {
    short start[82];                        /* first entry of each upper half */
    int halves;
    /* absent: what keeps a half that no entry has out of a minimum */
    float value[4 * 81], absent[TINYI_LATTICE_HALVES];
} tinyi_lattice_index;

static void tinyi_lattice_prepare(const tinyi_lattice *f, tinyi_lattice_index *index)
{
    int i, p = 0;
    index->halves = f->half == 4 ? 81 : 64;
    tinyi_lattice_table(f, index->value);
    for (i = 0; i < f->entries; i++)
        while (p <= tinyi_lattice_entry(f, i)[0] - 35) index->start[p++] = (short)i;
    while (p <= index->halves) index->start[p++] = (short)f->entries;
    for (p = 0; p < TINYI_LATTICE_HALVES; p++)
        index->absent[p] = p < index->halves && index->start[p] < index->start[p + 1] ? 0.0f : 3e38f;
}

typedef struct tinyi_lattice_sums { float p[2][TINYI_LATTICE_HALVES], n[2][TINYI_LATTICE_HALVES]; } tinyi_lattice_sums;

/* Sums over every lower and upper half, for the values x, weights w, and all levels moved by shift. */
static void tinyi_lattice_sum(const tinyi_lattice *f, const float *x, const float *w, float shift,
                              tinyi_lattice_sums *out)
{
    float p[4][8], n[4][8];
    int h, i, k, j, count;
    for (h = 0; h < 2; h++) {
        for (i = 0; i < f->half; i++)
            for (k = 0; k < f->base; k++) {
                const float g = f->level[k] + shift, wg = w[h * f->half + i] * g;
                p[i][k] = wg * x[h * f->half + i];
                n[i][k] = wg * g;
            }
        for (k = 0; k < f->base; k++) { out->p[h][k] = p[0][k]; out->n[h][k] = n[0][k]; }
        for (i = 1, count = f->base; i < f->half; i++, count *= f->base)
            for (k = f->base - 1; k >= 0; k--)
                for (j = 0; j < count; j++) {
                    out->p[h][k * count + j] = out->p[h][j] + p[i][k];
                    out->n[h][k * count + j] = out->n[h][j] + n[i][k];
                }
        for (; count < TINYI_LATTICE_HALVES; count++) out->p[h][count] = out->n[h][count] = 0.0f;
    }
}

/* Returns s (s N - 2 P) of the best entry, and adds its P and N. */
static float tinyi_lattice_find(const tinyi_lattice *f, const tinyi_lattice_index *index,
                                const tinyi_lattice_sums *sums, float s, int *entry, double *p, double *n)
{
    float low[TINYI_LATTICE_HALVES], up[TINYI_LATTICE_HALVES], best, least, l[4], u[4];
    const float s2 = s + s, ss = s * s;
    int h, i, first = 0, turn;
    const char *e;
    for (i = 0; i < TINYI_LATTICE_HALVES; i++) {
        low[i] = ss * sums->n[0][i] - s2 * sums->p[0][i];
        up[i] = ss * sums->n[1][i] - s2 * sums->p[1][i] + index->absent[i];
    }
    for (h = 0; h < 4; h++) { l[h] = low[h]; u[h] = up[h]; }
    /* four minima at once, none waits for another; the 0 past the halves of low can only make the bound looser */
    for (i = 4; i < TINYI_LATTICE_HALVES; i += 4)
        for (h = 0; h < 4; h++) {
            l[h] = low[i + h] < l[h] ? low[i + h] : l[h];
            u[h] = up[i + h] < u[h] ? up[i + h] : u[h];
        }
    least = TINYI_MIN(TINYI_MIN(l[0], l[1]), TINYI_MIN(l[2], l[3]));
    best = TINYI_MIN(TINYI_MIN(u[0], u[1]), TINYI_MIN(u[2], u[3]));
    while (first < index->halves - 1 && up[first] != best) first++;
    best = 3e38f;
    *entry = 0;
    for (turn = -1; turn < index->halves; turn++) {     /* the best upper half first, then whatever could still win */
        h = turn < 0 ? first : turn;
        if (turn >= 0 && (turn == first || !(up[h] + least < best))) continue;
        for (i = index->start[h], e = tinyi_lattice_entry(f, i); i < index->start[h + 1]; i++) {
            const float cost = up[h] + low[e[1] - 35];
            if (cost < best) { best = cost; *entry = i; }
            e = tinyi_lattice_entry(f, i + 1);
        }
    }
    e = tinyi_lattice_entry(f, *entry);
    *p += (double)(sums->p[0][e[1] - 35] + sums->p[1][e[0] - 35]);
    *n += (double)(sums->n[0][e[1] - 35] + sums->n[1][e[0] - 35]);
    return best;
}

#define TINYI_LATTICE_MINUS 0x4000          /* next to an entry: the shift is -1/8 */

/* All entries of a group at the scale s: returns the cost, and P and N of all. */
static double tinyi_lattice_group(const tinyi_lattice *f, const tinyi_lattice_index *index,
                                  tinyi_lattice_sums (*sums)[2], float s, short *entry, double *p, double *n)
{
    const int count = f->group / f->size;
    double total[2] = { 0.0, 0.0 }, ps[2] = { 0.0, 0.0 }, ns[2] = { 0.0, 0.0 };
    short found[2][8];
    int i, t, e, take = 0;
    for (i = 0; i < count; i++) {
        double cost[2] = { 0.0, 0.0 }, pi[2] = { 0.0, 0.0 }, ni[2] = { 0.0, 0.0 };
        for (t = 0; t < (f->shifts ? 2 : 1); t++) {
            cost[t] = (double)tinyi_lattice_find(f, index, &sums[i][t], s, &e, &pi[t], &ni[t]);
            found[t][i] = (short)(e | (t ? TINYI_LATTICE_MINUS : 0));
        }
        if (f->shifts == 8 && cost[1] < cost[0]) {
            cost[0] = cost[1];
            pi[0] = pi[1];
            ni[0] = ni[1];
            found[0][i] = found[1][i];
        }
        for (t = 0; t < 2; t++) { total[t] += cost[t]; ps[t] += pi[t]; ns[t] += ni[t]; }
    }
    if (f->shifts == 32 && total[1] < total[0]) take = 1;
    memcpy(entry, found[take], (size_t)count * sizeof *entry);
    *p = ps[take];
    *n = ns[take];
    return total[take];
}

typedef struct tinyi_lattice_found {
    double cost, p, n;                      /* p, n: for D of least squares */
    float d;
    int k[16];
    short entry[64];
} tinyi_lattice_found;

/* Puts the entries and scales of 256 values into best, signs into sign (a byte for 8 values). Returns D, 0 for a block
 * of nothing. */
static float tinyi_lattice_search(const tinyi_lattice *f, const tinyi_lattice_index *index, const float *x,
                                  const float *importance, tinyi_lattice_found *best, unsigned char *sign)
{
    float y[256], w[256], s[16], c[16], d[TINYI_Q_KEEP] = { 0.0f };
    tinyi_lattice_sums sums[8][2];
    tinyi_lattice_found trial[2];
    const int groups = 256 / f->group, count = f->group / f->size;
    short entry[8];
    int g, i, j, t, n, round;
    memset(best, 0, sizeof *best);
    memset(sign, 0, 32);
    if (!tinyi_q_weigh(x, importance, 256, y, w)) return 0.0f;
    if (!f->shifts)
        for (i = 0; i < 256; i += 8) {
            int minus = 0, cheapest = i;
            for (j = i; j < i + 8; j++) {
                if (y[j] < 0.0f) { y[j] = -y[j]; minus ^= 1 << (j - i); }
                if (w[j] * y[j] < w[cheapest] * y[cheapest]) cheapest = j;
            }
            if (f->even && (tinyi_lattice_eighth((unsigned)minus & 127) >> 7) != (unsigned)minus >> 7) {
                minus ^= 1 << (cheapest - i);
                y[cheapest] = -y[cheapest];
            }
            sign[i / 8] = (unsigned char)minus;
        }
    for (round = 0; round < 3; round++) {   /* the wanted scales; the best of D; D of least squares */
        float ld[2];
        if (round == 1) {
            n = tinyi_q_scales(s, c, groups, 0, f->k_top, 1, d);
            if (!n) return 0.0f;
            n = tinyi_q_min(n, 2);
        } else {
            n = 1;
        }
        if (round == 2) {
            d[0] = tinyi_f16_to_f32(tinyi_q_to_half((float)(best->p / best->n)));
            if (!(best->n > 0.0) || !(d[0] > 0.0f) || d[0] == best->d) break;
        }
        memset(trial, 0, sizeof trial);
        for (t = 0; t < 2; t++) ld[t] = t < n ? d[t] * f->unit : 0.0f;
        for (g = 0; g < groups; g++) {
            const float *gx = y + g * f->group, *gw = w + g * f->group;
            double p, q, cost;
            for (i = 0; i < count; i++) {
                tinyi_lattice_sum(f, gx + i * f->size, gw + i * f->size, f->shifts ? 0.125f : 0.0f, &sums[i][0]);
                if (f->shifts) tinyi_lattice_sum(f, gx + i * f->size, gw + i * f->size, -0.125f, &sums[i][1]);
            }
            if (round == 0) {
                const float top = f->shifts ? 1.0f : f->level[f->base - 1];
                float most = 0.0f;
                double least = 0.0, sw = 0.0;
                for (i = 0; i < f->group; i++) {
                    sw += (double)gw[i];
                    if (tinyi_q_abs(gx[i]) > most) most = tinyi_q_abs(gx[i]);
                }
                s[g] = 0.0f;
                c[g] = (float)(sw * (f->shifts ? 1.0 / 64.0 : (double)(f->level[0] * f->level[0]))) * f->unit * f->unit;
                if (!(most > 1e-12f)) continue;
                for (i = 0; i <= f->trials; i++) {
                    const float at = i < f->trials ? most / top * f->trial[i] : s[g] * f->unit;
                    (void)tinyi_lattice_group(f, index, sums, at, entry, &p, &q);
                    if (!(p > 0.0) || !(q > 0.0)) continue;
                    cost = -p * p / q;
                    if (cost < least * (1.0 + 1e-7)) {
                        least = cost;
                        s[g] = (float)(p / q) / f->unit;
                        c[g] = (float)q * f->unit * f->unit;
                    }
                }
                continue;
            }
            for (t = 0; t < n; t++) {
                float m = (s[g] / d[t] - 1.0f) * 0.5f;
                int middle, k, o;
                double least = 0.0, lp = 0.0, lq = 0.0;
                m = m < 0.0f ? 0.0f : m > (float)f->k_top ? (float)f->k_top : m;
                middle = (int)tinyi_q_nearest(m);
                for (o = 0; o < 3; o++) {
                    k = middle + (o == 2 ? -1 : o);
                    if (k < 0 || k > f->k_top) continue;
                    cost = tinyi_lattice_group(f, index, sums, ld[t] * (float)(2 * k + 1), entry, &p, &q);
                    if (o == 0 || cost < least) {
                        least = cost;
                        lp = p * (double)(f->unit * (float)(2 * k + 1));
                        lq = q * (double)(f->unit * (float)(2 * k + 1)) * (double)(f->unit * (float)(2 * k + 1));
                        trial[t].k[g] = k;
                        memcpy(trial[t].entry + g * count, entry, (size_t)count * sizeof *entry);
                    }
                }
                trial[t].cost += least;
                trial[t].p += lp;
                trial[t].n += lq;
            }
        }
        for (t = 0; round && t < n; t++)
            if ((round == 1 && t == 0) || trial[t].cost < best->cost) {
                *best = trial[t];
                best->d = d[t];
            }
    }
    if (best->cost < 0.0) return best->d;
    memset(best, 0, sizeof *best);          /* so small that nothing at all is nearer */
    memset(sign, 0, 32);
    return 0.0f;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void tinyi_lattice_or(unsigned char *b, int v) { *b = (unsigned char)(*b | v); }

TINYI_FN void tinyi_pack_IQ2_XXS(const float *x, void *q, size_t n, const float *importance)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq2xxs;
    tinyi_lattice_index index;
    tinyi_lattice_found r;
    unsigned char *b = (unsigned char *)q, sign[32];
    int v;
    tinyi_lattice_prepare(f, &index);
    for (; n >= 256; n -= 256, x += 256, b += 66, importance = importance ? importance + 256 : NULL) {
        memset(b, 0, 66);
        tinyi_q_put_half(b, tinyi_lattice_search(f, &index, x, importance, &r, sign));
        for (v = 0; v < 32; v++) {
            unsigned char *at = b + 2 + v / 4 * 8;
            at[v % 4] = (unsigned char)r.entry[v];
            tinyi_put_le32(at + 4, tinyi_q_u32(at + 4) | (sign[v] & 127u) << v % 4 * 7 | (uint32_t)r.k[v / 4] << 28);
        }
    }
}
TINYI_FN void tinyi_pack_IQ2_XS(const float *x, void *q, size_t n, const float *importance)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq2xs;
    tinyi_lattice_index index;
    tinyi_lattice_found r;
    unsigned char *b = (unsigned char *)q, sign[32];
    int v;
    tinyi_lattice_prepare(f, &index);
    for (; n >= 256; n -= 256, x += 256, b += 74, importance = importance ? importance + 256 : NULL) {
        memset(b, 0, 74);
        tinyi_q_put_half(b, tinyi_lattice_search(f, &index, x, importance, &r, sign));
        for (v = 0; v < 32; v++) tinyi_put_le16(b + 2 + 2 * v, (unsigned)r.entry[v] | (sign[v] & 127u) << 9);
        for (v = 0; v < 16; v++) tinyi_lattice_or(b + 66 + v / 2, r.k[v] << v % 2 * 4);
    }
}
TINYI_FN void tinyi_pack_IQ2_S(const float *x, void *q, size_t n, const float *importance)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq2s;
    tinyi_lattice_index index;
    tinyi_lattice_found r;
    unsigned char *b = (unsigned char *)q, sign[32];
    int v;
    tinyi_lattice_prepare(f, &index);
    for (; n >= 256; n -= 256, x += 256, b += 82, importance = importance ? importance + 256 : NULL) {
        memset(b, 0, 82);
        tinyi_q_put_half(b, tinyi_lattice_search(f, &index, x, importance, &r, sign));
        memcpy(b + 34, sign, 32);
        for (v = 0; v < 32; v++) {
            b[2 + v] = (unsigned char)r.entry[v];
            tinyi_lattice_or(b + 66 + v / 4, r.entry[v] >> 8 << v % 4 * 2);
        }
        for (v = 0; v < 16; v++) tinyi_lattice_or(b + 74 + v / 2, r.k[v] << v % 2 * 4);
    }
}
TINYI_FN void tinyi_pack_IQ3_XXS(const float *x, void *q, size_t n, const float *importance)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq3xxs;
    tinyi_lattice_index index;
    tinyi_lattice_found r;
    unsigned char *b = (unsigned char *)q, sign[32];
    int v;
    tinyi_lattice_prepare(f, &index);
    for (; n >= 256; n -= 256, x += 256, b += 98, importance = importance ? importance + 256 : NULL) {
        memset(b, 0, 98);
        tinyi_q_put_half(b, tinyi_lattice_search(f, &index, x, importance, &r, sign));
        for (v = 0; v < 64; v++) b[2 + v] = (unsigned char)r.entry[v];
        for (v = 0; v < 32; v++) {
            unsigned char *at = b + 66 + v / 4 * 4;
            tinyi_put_le32(at, tinyi_q_u32(at) | (sign[v] & 127u) << v % 4 * 7 | (uint32_t)r.k[v / 4] << 28);
        }
    }
}
TINYI_FN void tinyi_pack_IQ3_S(const float *x, void *q, size_t n, const float *importance)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq3s;
    tinyi_lattice_index index;
    tinyi_lattice_found r;
    unsigned char *b = (unsigned char *)q, sign[32];
    int v;
    tinyi_lattice_prepare(f, &index);
    for (; n >= 256; n -= 256, x += 256, b += 110, importance = importance ? importance + 256 : NULL) {
        memset(b, 0, 110);
        tinyi_q_put_half(b, tinyi_lattice_search(f, &index, x, importance, &r, sign));
        memcpy(b + 74, sign, 32);
        for (v = 0; v < 64; v++) {
            b[2 + v] = (unsigned char)r.entry[v];
            tinyi_lattice_or(b + 66 + v / 8, r.entry[v] >> 8 << v % 8);
        }
        for (v = 0; v < 8; v++) tinyi_lattice_or(b + 106 + v / 2, r.k[v] << v % 2 * 4);
    }
}
TINYI_FN void tinyi_pack_IQ1_S(const float *x, void *q, size_t n, const float *importance)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq1s;
    tinyi_lattice_index index;
    tinyi_lattice_found r;
    unsigned char *b = (unsigned char *)q, sign[32];
    int v;
    tinyi_lattice_prepare(f, &index);
    for (; n >= 256; n -= 256, x += 256, b += 50, importance = importance ? importance + 256 : NULL) {
        memset(b, 0, 50);
        tinyi_q_put_half(b, tinyi_lattice_search(f, &index, x, importance, &r, sign));
        for (v = 0; v < 32; v++) {
            const unsigned e = (unsigned)r.entry[v];
            unsigned char *at = b + 34 + v / 4 * 2;
            b[2 + v] = (unsigned char)e;
            tinyi_put_le16(at, tinyi_q_u16(at) | (e >> 8 & 7) << v % 4 * 3 | (unsigned)r.k[v / 4] << 12 |
                                   (e & TINYI_LATTICE_MINUS ? 0x8000u : 0u));
        }
    }
}
TINYI_FN void tinyi_pack_IQ1_M(const float *x, void *q, size_t n, const float *importance)
{
    const tinyi_lattice *f = &tinyi_lattice_of_iq1m;
    tinyi_lattice_index index;
    tinyi_lattice_found r;
    unsigned char *b = (unsigned char *)q, sign[32];
    int v;
    tinyi_lattice_prepare(f, &index);
    for (; n >= 256; n -= 256, x += 256, b += 56, importance = importance ? importance + 256 : NULL) {
        unsigned half;
        memset(b, 0, 56);
        half = tinyi_q_to_half(tinyi_lattice_search(f, &index, x, importance, &r, sign));
        for (v = 0; v < 32; v++) {
            const int e = r.entry[v];
            b[v] = (unsigned char)e;
            tinyi_lattice_or(b + 32 + v / 2, ((e >> 8 & 7) | (e & TINYI_LATTICE_MINUS ? 8 : 0)) << v % 2 * 4);
        }
        for (v = 0; v < 16; v++) {
            unsigned char *at = b + 48 + v / 4 * 2;
            tinyi_put_le16(at, tinyi_q_u16(at) | (unsigned)r.k[v] << v % 4 * 3);
        }
        for (v = 0; v < 4; v++) tinyi_lattice_or(b + 49 + 2 * v, (int)(half >> 4 * v & 15) << 4);
    }
}

TINY_REF_END

/* ---- taken apart for products ------------------------------------------------------------------------------------ */

/* the bytes of every half, half after half: four digits in base 3, or two in base 8, the first one lowest */
#define TINYI_B3_1(a, b, c, y, z, w) a, y, z, w, b, y, z, w, c, y, z, w
#define TINYI_B3_2(a, b, c, z, w) \
    TINYI_B3_1(a, b, c, a, z, w), TINYI_B3_1(a, b, c, b, z, w), TINYI_B3_1(a, b, c, c, z, w)
#define TINYI_B3_3(a, b, c, w) TINYI_B3_2(a, b, c, a, w), TINYI_B3_2(a, b, c, b, w), TINYI_B3_2(a, b, c, c, w)
#define TINYI_B3(a, b, c) { TINYI_B3_3(a, b, c, a), TINYI_B3_3(a, b, c, b), TINYI_B3_3(a, b, c, c) }
static const unsigned char tinyi_book_halves2[81 * 4] = TINYI_B3(8, 25, 43);
/* eight times -1, 0, 1, and 1 more or less */
static const unsigned char tinyi_book_halves1[2][81 * 4] = { TINYI_B3(249, 1, 9), TINYI_B3(247, 255, 7) };
#define TINYI_B8_1(z, a, b, c, d, e, f, g, h) a, z, b, z, c, z, d, z, e, z, f, z, g, z, h, z
#define TINYI_B8(a, b, c, d, e, f, g, h)                                                  \
    {                                                                                     \
        TINYI_B8_1(a, a, b, c, d, e, f, g, h), TINYI_B8_1(b, a, b, c, d, e, f, g, h),     \
            TINYI_B8_1(c, a, b, c, d, e, f, g, h), TINYI_B8_1(d, a, b, c, d, e, f, g, h), \
            TINYI_B8_1(e, a, b, c, d, e, f, g, h), TINYI_B8_1(f, a, b, c, d, e, f, g, h), \
            TINYI_B8_1(g, a, b, c, d, e, f, g, h), TINYI_B8_1(h, a, b, c, d, e, f, g, h)  \
    }
static const unsigned char tinyi_book_halves3xxs[64 * 2] = TINYI_B8(4, 12, 20, 28, 36, 44, 52, 62);
static const unsigned char tinyi_book_halves3s[64 * 2] = TINYI_B8(1, 3, 5, 7, 9, 11, 13, 15);

/* where the half of a character is; unsigned, so that a load adds up all of it */
#define TINYI_BOOK_HALF(halves, size, c) (&(halves)[(size_t)(size) * (unsigned char)(c) - 35 * (size_t)(size)])
TINYI_FORCE_INLINE void tinyi_book_eight(unsigned char *to, const unsigned char *halves, const char *entry)
{
    memcpy(to, TINYI_BOOK_HALF(halves, 4, entry[1]), 4);
    memcpy(to + 4, TINYI_BOOK_HALF(halves, 4, entry[0]), 4);
}
TINYI_FORCE_INLINE void tinyi_book_four(unsigned char *to, const unsigned char *halves, const char *entry)
{
    memcpy(to, TINYI_BOOK_HALF(halves, 2, entry[1]), 2);
    memcpy(to + 2, TINYI_BOOK_HALF(halves, 2, entry[0]), 2);
}
/* four times 7 bits, each with the eighth that makes their number even */
TINYI_INLINE void tinyi_book_signs(unsigned char *to, uint32_t word)
{
    uint32_t x = (word & 0x7fu) | (word & 0x3f80u) << 1 | (word & 0x1fc000u) << 2 | (word & 0xfe00000u) << 3,
             p = x ^ x >> 4;
    p ^= p >> 2;
    x |= ((p ^ p >> 1) & 0x01010101u) << 7;
    tinyi_put_le32(to, x);
}
/* 16 scales of four bits in 8 bytes */
TINYI_INLINE void tinyi_book_scales(unsigned char *k, const unsigned char *b)
{
    int i;
    for (i = 0; i < 8; i++) {
        k[2 * i] = (unsigned char)(2 * (b[i] & 15) + 1);
        k[2 * i + 1] = (unsigned char)(2 * (b[i] >> 4) + 1);
    }
}

/* an entry of the two strings of IQ1: a 0 ends the first one */
TINYI_FORCE_INLINE const char *tinyi_book_entry1(unsigned i)
{
    return tinyi_lattice_iq1[0] + 2 * (size_t)i + (i >> 10);
}

#ifndef TINYLLM_FEW_FORMATS
TINYI_FN void tinyi_book_table(unsigned char *to, int blk)
{
    static const unsigned char whole1[81 * 4] = TINYI_B3(248, 0, 8);
    const int four = blk == TINYI_BLK_IQ3_XXS || blk == TINYI_BLK_IQ3_S,
              one = blk == TINYI_BLK_IQ1_S || blk == TINYI_BLK_IQ1_M;
    const unsigned n = one                        ? 2048
                       : blk == TINYI_BLK_IQ2_S   ? 1024
                       : blk == TINYI_BLK_IQ2_XS || blk == TINYI_BLK_IQ3_S ? 512
                                                  : 256;
    const char *const entry = blk == TINYI_BLK_IQ2_XXS  ? tinyi_lattice_iq2xxs
                              : blk == TINYI_BLK_IQ2_XS ? tinyi_lattice_iq2xs
                              : blk == TINYI_BLK_IQ2_S  ? tinyi_lattice_iq2s
                              : blk == TINYI_BLK_IQ3_S  ? tinyi_lattice_iq3s
                                                        : tinyi_lattice_iq3xxs;
    unsigned i;
    for (i = 0; i < n; i++) {
        if (one) tinyi_book_eight(to + 8 * i, whole1, tinyi_book_entry1(i));
        else if (!four) tinyi_book_eight(to + 8 * i, tinyi_book_halves2, entry + 2 * (size_t)i);
        else tinyi_book_four(to + 4 * i, blk == TINYI_BLK_IQ3_S ? tinyi_book_halves3s : tinyi_book_halves3xxs,
                             entry + 2 * (size_t)i);
    }
}
#endif

TINYI_FN void tinyi_book_IQ2_XXS(tinyi_book *to, const unsigned char *b)
{
    int g, l;
    to->d = tinyi_q_half(b) * 0.125f;
    for (g = 0; g < 8; g++) {
        const unsigned char *at = b + 2 + 8 * g;
        const uint32_t word = tinyi_q_u32(at + 4);
        to->k[2 * g] = to->k[2 * g + 1] = (unsigned char)(2 * (word >> 28) + 1);
        tinyi_book_signs(to->sign + 4 * g, word);
        TINYI_UNROLL for (l = 0; l < 4; l++)
            tinyi_book_eight(to->code + 32 * g + 8 * l, tinyi_book_halves2, tinyi_lattice_iq2xxs + 2 * (size_t)at[l]);
    }
}
TINYI_FN void tinyi_book_IQ2_XS(tinyi_book *to, const unsigned char *b)
{
    int v, l;
    to->d = tinyi_q_half(b) * 0.125f;
    tinyi_book_scales(to->k, b + 66);
    for (v = 0; v < 32; v += 4) {
        uint32_t signs = 0;
        TINYI_UNROLL for (l = 0; l < 4; l++) {
            const unsigned word = tinyi_q_u16(b + 2 + 2 * (v + l));
            signs |= (uint32_t)(word >> 9) << 7 * l;
            tinyi_book_eight(to->code + 8 * (v + l), tinyi_book_halves2,
                             tinyi_lattice_iq2xs + 2 * (size_t)(word & 511));
        }
        tinyi_book_signs(to->sign + v, signs);
    }
}
TINYI_FN void tinyi_book_IQ2_S(tinyi_book *to, const unsigned char *b)
{
    int v, l;
    to->d = tinyi_q_half(b) * 0.125f;
    tinyi_book_scales(to->k, b + 74);
    memcpy(to->sign, b + 34, 32);
    for (v = 0; v < 32; v += 4) {
        const unsigned high = b[66 + v / 4];
        TINYI_UNROLL for (l = 0; l < 4; l++)
            tinyi_book_eight(to->code + 8 * (v + l), tinyi_book_halves2,
                             tinyi_lattice_iq2s + 2 * (size_t)(b[2 + v + l] | (high << (8 - 2 * l) & 0x300)));
    }
}
TINYI_FN void tinyi_book_IQ3_XXS(tinyi_book *to, const unsigned char *b)
{
    int g, l;
    to->d = tinyi_q_half(b) * 0.25f;
    for (g = 0; g < 8; g++) {
        const unsigned char *at = b + 2 + 8 * g;
        const uint32_t word = tinyi_q_u32(b + 66 + 4 * g);
        to->k[2 * g] = to->k[2 * g + 1] = (unsigned char)(2 * (word >> 28) + 1);
        tinyi_book_signs(to->sign + 4 * g, word);
        TINYI_UNROLL for (l = 0; l < 8; l++)
            tinyi_book_four(to->code + 32 * g + 4 * l, tinyi_book_halves3xxs, tinyi_lattice_iq3xxs + 2 * (size_t)at[l]);
    }
}
TINYI_FN void tinyi_book_IQ3_S(tinyi_book *to, const unsigned char *b)
{
    int v, g, l;
    to->d = tinyi_q_half(b);
    for (g = 0; g < 8; g++)
        to->k[2 * g] = to->k[2 * g + 1] = (unsigned char)(2 * (b[106 + g / 2] >> g % 2 * 4 & 15) + 1);
    memcpy(to->sign, b + 74, 32);
    for (v = 0; v < 64; v += 8) {
        const unsigned high = b[66 + v / 8];
        TINYI_UNROLL for (l = 0; l < 8; l++)
            tinyi_book_four(to->code + 4 * (v + l), tinyi_book_halves3s,
                            tinyi_lattice_iq3s + 2 * (size_t)(b[2 + v + l] | (high << (8 - l) & 0x100)));
    }
}
TINYI_FN void tinyi_book_IQ1_S(tinyi_book *to, const unsigned char *b)
{
    int g, l;
    to->d = tinyi_q_half(b) * 0.125f;
    memset(to->sign, 0, sizeof to->sign);
    for (g = 0; g < 8; g++) {
        const int word = tinyi_q_u16(b + 34 + 2 * g);
        to->k[2 * g] = to->k[2 * g + 1] = (unsigned char)(2 * (word >> 12 & 7) + 1);
        TINYI_UNROLL for (l = 0; l < 4; l++)
            tinyi_book_eight(to->code + 32 * g + 8 * l, tinyi_book_halves1[word >> 15],
                             tinyi_book_entry1((unsigned)(b[2 + 4 * g + l] | (word >> 3 * l & 7) << 8)));
    }
}
TINYI_FN void tinyi_book_IQ1_M(tinyi_book *to, const unsigned char *b)
{
    int v;
    to->d =
        tinyi_f16_to_f32((uint16_t)(b[49] >> 4 | (b[51] & 0xf0) | (b[53] & 0xf0) << 4 | (b[55] & 0xf0) << 8)) * 0.125f;
    memset(to->sign, 0, sizeof to->sign);
    for (v = 0; v < 16; v++) to->k[v] = (unsigned char)(2 * (tinyi_q_u16(b + 48 + v / 4 * 2) >> v % 4 * 3 & 7) + 1);
    for (v = 0; v < 32; v += 2) {
        const unsigned high = b[32 + v / 2];
        tinyi_book_eight(to->code + 8 * v, tinyi_book_halves1[high >> 3 & 1],
                         tinyi_book_entry1(b[v] | (high & 7) << 8));
        tinyi_book_eight(to->code + 8 * v + 8, tinyi_book_halves1[high >> 7],
                         tinyi_book_entry1(b[v + 1] | (high & 0x70) << 4));
    }
}
